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
  readonly asUser?: string
  /** Resolves true once the server does real work; a throw counts as "not yet". */
  readonly ready: (port: number) => Promise<boolean>
  readonly cleanUp: () => void
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
      await child.stop()
      child = await launch(recipe, port)
    },
    stop() {
      stopped ??= child.stop().then(recipe.cleanUp)
      return stopped
    },
  }
}

async function launch(recipe: Recipe, port: number): Promise<RunningProcess> {
  const child = await start({ ...recipe, args: recipe.args(port) })
  try {
    await until(`${recipe.name} on port ${port} answers`, async () => {
      if (!child.isAlive()) return true // leave the loop at once; reported below
      return await recipe.ready(port)
    })
    if (!child.isAlive()) throw new Error(`${recipe.name} ended while starting`)
    return child
  } catch (cause) {
    await child.stop(0)
    throw new Error(`${recipe.name} did not start:\n${child.output().slice(-2000)}`, { cause })
  }
}
