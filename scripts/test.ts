import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { needsOf } from './provision/needs.js'
import { provision } from './provision.js'
import { closingLine, judge, type VitestReport } from './verdict.js'

const HELP = `npm test [-- <file filter> …]

Runs every test: those that need no server, then those on real Redis, MariaDB,
MySQL, PostgreSQL and nginx, then those on RocketMQ and Kafka. They are started on
free loopback ports and ended afterwards. Missing ones are fetched first (the first
time on a machine, a minute or two); what apt installs, only as root on Debian.

The last line is "N passed, N failed". A skipped test, a file that cannot be read,
an error outside of any test and a run without tests count as failures.

One test while working on it:  npx vitest --project real test/real/<file> -t '<name>'
On a broker, or a whole sale:  npx vitest --project brokers test/real/<file>
Only what needs no server:     npm run test:unit`

const VITEST = join(import.meta.dirname, '../node_modules/vitest/vitest.mjs')

let interrupted = false

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    console.log(HELP)
    return 0
  }
  provision(needsOf(args))
  const folder = mkdtempSync(join(tmpdir(), 'flash-sale-kit-report-'))
  try {
    const file = join(folder, 'report.json')
    const exitCode = await vitest([
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${file}`,
      ...args,
    ])
    if (interrupted) return 130
    const verdict = judge(readReport(file), exitCode)
    for (const complaint of verdict.complaints) console.log(complaint)
    console.log(closingLine(verdict))
    return verdict.failed > 0 ? 1 : 0
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Runs vitest in a process group of its own: Ctrl-C then reaches it once, through us, and it ends the servers before it
 * goes; a second signal makes it go at once.
 */
function vitest(args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [VITEST, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true,
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      interrupted = true
      child.kill(signal)
    })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code ?? 1))
  })
}

/** Null when vitest ended before it could write one. */
function readReport(file: string): VitestReport | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as VitestReport
  } catch {
    return null
  }
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
