import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'

/**
 * Child processes that cannot outlive the tests. Where util-linux is present (every Debian) `setpriv --pdeathsig` has the
 * kernel kill the child when its parent dies, whatever it dies of; elsewhere an `exit` handler does what it can. setpriv
 * replaces itself by the command, so `pid` is the pid of the command.
 */

export interface RunningProcess {
  readonly name: string
  readonly pid: number
  /** Everything it wrote so far, both streams. */
  output(): string
  /** Resolves with the first whole line of output that matches, also one written before the call. */
  line(pattern: RegExp, timeoutMs?: number): Promise<string>
  write(text: string): void
  isAlive(): boolean
  /** Sends the signal; for one that ends the process, resolves when it has ended. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** SIGTERM, then SIGKILL after `patienceMs`; resolves when it has ended. */
  stop(patienceMs?: number): Promise<void>
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGQUIT'])
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(isExecutable)
const running = new Set<RunningProcess>()

process.on('exit', () => {
  for (const child of running) process.kill(child.pid, 'SIGKILL')
})

/** What was started here and has not ended. */
export function runningProcesses(): readonly RunningProcess[] {
  return [...running]
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Starts a command; `asUser` needs root and setpriv. */
export async function start(o: {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly cwd?: string
  readonly asUser?: string
}): Promise<RunningProcess> {
  const [command, args] = guarded(o.command, o.args, o.asUser)
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: o.env ?? process.env,
    ...(o.cwd === undefined ? {} : { cwd: o.cwd }),
  })
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
  return follow(o.name, child)
}

function guarded(
  command: string,
  args: readonly string[],
  asUser?: string,
): [string, readonly string[]] {
  if (!SETPRIV) {
    if (asUser) throw new Error(`running ${command} as ${asUser} needs setpriv (util-linux)`)
    return [command, args]
  }
  const user = asUser ? [`--reuid=${asUser}`, `--regid=${asUser}`, '--init-groups'] : []
  return [SETPRIV, ['--pdeathsig', 'KILL', ...user, '--', command, ...args]]
}

function follow(name: string, child: ChildProcess): RunningProcess {
  const pid = child.pid as number
  let text = ''
  const watchers = new Set<() => void>()
  const take = (chunk: string) => {
    text += chunk
    for (const look of watchers) look()
  }
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', take)
  child.stdin?.on('error', () => {}) // EPIPE of a process that was killed is no news

  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('close', (code, signal) => {
      running.delete(handle)
      resolve({ code, signal })
      for (const look of watchers) look()
    })
  })
  const isAlive = () => running.has(handle)

  const line = (pattern: RegExp, timeoutMs = 20_000) =>
    new Promise<string>((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer)
        watchers.delete(look)
        act()
      }
      const fail = (why: string) =>
        settle(() => reject(new Error(`${name} ${why} before a line ${pattern}:\n${text}`)))
      const look = () => {
        const found = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
        const hit = found.find((candidate) => pattern.test(candidate))
        if (hit !== undefined) settle(() => resolve(hit))
        else if (!isAlive()) fail('ended')
      }
      const timer = setTimeout(() => fail(`was silent for ${timeoutMs} ms`), timeoutMs)
      watchers.add(look)
      look()
    })

  const kill = async (signal: NodeJS.Signals) => {
    if (!isAlive()) return
    child.kill(signal)
    if (ENDING.has(signal)) await exited
  }
  const stop = async (patienceMs = 10_000) => {
    if (!isAlive()) return
    child.kill('SIGCONT') // a frozen process hears no SIGTERM
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
    await exited
    clearTimeout(timer)
  }

  const handle: RunningProcess = {
    name,
    pid,
    output: () => text,
    line,
    write: (input) => void child.stdin?.write(input),
    isAlive,
    kill,
    stop,
    exited,
  }
  running.add(handle)
  return handle
}
