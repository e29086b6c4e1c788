import { type RunningProcess, start } from './process.js'

/**
 * Runs a TypeScript file in a Node process of its own, to be killed in mid-flight. It dies with its parent, and a test
 * file that leaves one running fails (`leftovers.ts`).
 */
export function spawnNode(
  file: string | URL,
  o: { readonly args?: readonly string[]; readonly env?: Record<string, string> } = {},
): Promise<RunningProcess> {
  const path = file instanceof URL ? file.pathname : file
  return start({
    name: `node ${path.split('/').at(-1)}`,
    command: process.execPath,
    args: ['--import', 'tsx', path, ...(o.args ?? [])],
    env: { ...process.env, ...o.env },
  })
}
