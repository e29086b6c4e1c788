import { createHash } from 'node:crypto'
import type { RedisLike } from '../../core/ports.js'
import type { LuaVm } from './lua.js'
import type { CallFault, Calls, SimProcess } from './process.js'
import type { RedisStore, Reply } from './redis-store.js'

const FAULTS: readonly CallFault<unknown>[] = [
  { name: 'done, the answer is lost', done: 1 },
  { name: 'lost', done: 0 },
  { name: 'refused', done: 0, fails: () => new Error('LOADING Redis is loading the dataset') },
  { name: 'done, and sent once more by the client', done: 1, again: true },
]

const texts = new Map<string, string>()

/** One Redis: its data, and the scripts that run on them. */
export class SimRedis {
  /** Answers of scripts that wrote nothing, until something is written: a reconciler asks the same over and over. */
  private readonly known = new Map<string, Reply>()
  private knownAt = -1

  constructor(
    readonly store: RedisStore,
    private readonly vm: LuaVm,
    /** Changes the text of the scripts. */
    private readonly patch: (lua: string) => string,
  ) {}

  run(sha: string, lua: string, keys: number, args: readonly string[]): Reply {
    const { store, known } = this
    if (this.knownAt !== store.version) known.clear()
    this.knownAt = store.version
    const call = `${sha} ${args.join(' ')}`
    const before = known.get(call)
    if (before !== undefined) return before
    let pure = true
    const reply = this.vm.run(
      this.patch(lua),
      args.slice(0, keys),
      args.slice(keys),
      (name, rest) => {
        if (name === 'TIME') pure = false
        return store.call(name, rest)
      },
    )
    if (pure && store.version === this.knownAt) known.set(call, reply)
    return reply
  }
}

/** The client of one process: real scripts, each call an event. */
export function simRedis(o: {
  readonly process: SimProcess
  readonly calls: Calls
  readonly redis: SimRedis
  readonly label: (sha: string, args: readonly string[]) => string
}): RedisLike {
  const run = (sha: string, lua: string, keys: number, args: readonly string[]) =>
    o.calls.send(
      o.process,
      () => `Redis: ${o.label(sha, args)}`,
      () => o.redis.run(sha, lua, keys, args),
      FAULTS,
    )
  return {
    evalsha(sha, keys, ...args) {
      const lua = texts.get(sha)
      // Not an event: whether a server has the text already must not change a run.
      if (lua === undefined) return Promise.reject(new Error('NOSCRIPT No matching script'))
      return run(sha, lua, keys, args)
    },
    eval(lua, keys, ...args) {
      const sha = createHash('sha1').update(lua).digest('hex')
      texts.set(sha, lua)
      return run(sha, lua, keys, args)
    },
  }
}
