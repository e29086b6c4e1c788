import { freePort, LOOPBACK, until } from '../net.js'
import { type RunningProcess, start } from '../process.js'

/** A real server on a loopback port; it keeps port and data across `kill` and `restart`. */
export interface Server {
  readonly host: string
  readonly port: number
  /** Of the process that runs now. */
  readonly pid: number
  isAlive(): boolean
  /** SIGKILL, SIGTERM: resolves when it has ended. SIGSTOP freezes it, SIGCONT thaws it. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Ends it if it runs (SIGTERM), starts it again on the same port and data, resolves when it answers. */
  restart(): Promise<void>
  /** Ends it and removes its data. */
  stop(): Promise<void>
}

export interface DatabaseServer extends Server {
  readonly user: string
  readonly password: string
  /** Exists from the start; `freshDatabase` makes its own beside it. */
  readonly database: string
}

export interface Recipe {
  readonly name: string
  readonly port?: number
  readonly command: string
  readonly args: (port: number) => readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly asUser?: string
  /** Resolves true once the server does real work; a throw counts as "not yet". `output` is what it wrote so far. */
  readonly ready: (port: number, output: () => string) => Promise<boolean>
  readonly cleanUp: () => void
  /** 30 s unless it is slower. */
  readonly startWithinMs?: number
  /** How long `restart` and `stop` wait after SIGTERM before they kill: 10 s unless waiting gains nothing. */
  readonly endWithinMs?: number
}

export async function runServer(recipe: Recipe): Promise<Server> {
  const port = recipe.port ?? (await freePort())
  let child = await launch(recipe, port)
  let stopped: Promise<void> | undefined
  return {
    host: LOOPBACK,
    port,
    get pid() {
      return child.pid
    },
    isAlive: () => child.isAlive(),
    kill: (signal) => child.kill(signal),
    async restart() {
      if (stopped) throw new Error(`${recipe.name} was stopped, its data is gone`)
      await child.stop(recipe.endWithinMs)
      child = await launch(recipe, port)
    },
    stop() {
      stopped ??= child.stop(recipe.endWithinMs).then(recipe.cleanUp)
      return stopped
    },
  }
}

async function launch(recipe: Recipe, port: number): Promise<RunningProcess> {
  const child = await start({ ...recipe, args: recipe.args(port) })
  try {
    await until(
      `${recipe.name} on port ${port} answers`,
      async () => {
        if (!child.isAlive()) return true // leave the loop at once; reported below
        return await recipe.ready(port, child.output)
      },
      recipe.startWithinMs,
    )
    if (!child.isAlive()) throw new Error(`${recipe.name} ended while starting`)
    return child
  } catch (cause) {
    await child.kill('SIGKILL')
    throw new Error(`${recipe.name} did not start:\n${child.output().slice(-2000)}`, { cause })
  }
}
