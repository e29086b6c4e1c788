/** A bar on a terminal, a line every tenth elsewhere; on stderr, so that stdout stays a report. */
export function progressBar(total: number): { at(done: number): void; end(): void } {
  const tty = process.stderr.isTTY
  let shown = -1
  return {
    at(done) {
      const percent = Math.floor((done / total) * 100)
      if (percent === shown || (!tty && percent % 10 !== 0)) return
      shown = percent
      const bar = '#'.repeat(Math.floor(percent / 2.5)).padEnd(40, '.')
      process.stderr.write(tty ? `\r[${bar}] ${percent}% ` : `${percent}% of ${total} requests\n`)
    },
    end() {
      if (tty) process.stderr.write('\n')
    },
  }
}
