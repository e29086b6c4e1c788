import { createHash } from 'node:crypto'
import type { RedisLike } from '../../core/ports.js'
import type { LuaVm } from './lua.js'
import type { CallFault, Calls, SimProcess } from './process.js'
import type { RedisStore } from './redis-store.js'

const FAULTS: readonly CallFault<unknown>[] = [
  { name: 'done, the answer is lost', done: 1 },
  { name: 'lost', done: 0 },
  { name: 'refused', done: 0, fails: () => new Error('LOADING Redis is loading the dataset') },
  { name: 'done, and sent once more by the client', done: 1, again: true },
]

const texts = new Map<string, string>()

/** The client of one process: real scripts over the shared store, each call an event. */
export function simRedis(o: {
  readonly process: SimProcess
  readonly calls: Calls
  readonly store: RedisStore
  readonly vm: LuaVm
  readonly patch: (lua: string) => string
  readonly label: (sha: string, args: readonly string[]) => string
}): RedisLike {
  const run = (sha: string, lua: string, keys: number, args: readonly string[]) =>
    o.calls.send(
      o.process,
      `Redis: ${o.label(sha, args)}`,
      () =>
        o.vm.run(o.patch(lua), args.slice(0, keys), args.slice(keys), (command, rest) =>
          o.store.call(command, rest),
        ),
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
