import { spawnSync } from 'node:child_process'

/** Runs it to its end; what it printed is shown only when it fails. */
export function run(
  command: string,
  args: readonly string[],
  o: { readonly env?: NodeJS.ProcessEnv; readonly cwd?: string } = {},
): string {
  const { error, status, signal, stdout, stderr } = spawnSync(command, args, {
    ...o,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  if (error) throw error
  if (status !== 0)
    throw new Error(
      `${command} ${args.join(' ')} ended with ${status ?? signal}:\n${stdout}${stderr}`,
    )
  return stdout
}

/** Says what is done and how long it took: a silent minute looks like a hang. */
export function step(what: string, act: () => void): void {
  const begun = performance.now()
  console.log(`${what} …`)
  act()
  console.log(`  took ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
}
