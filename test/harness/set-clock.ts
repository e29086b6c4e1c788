import type { Redis } from 'ioredis'

const TIME = "redis.call('TIME')"
/** The time travels as two arguments more, behind all that a script counts; so its text is the same at each instant. */
const TOLD = '{ARGV[#ARGV - 1], ARGV[#ARGV]}'

/**
 * A client whose scripts are told the time by the test, on the mock and on a server alike: whatever a rule says of an
 * instant can then be said exactly. Only TIME is set; what expires still goes by the server's own clock.
 */
export class SetClock {
  readonly redis: Redis

  constructor(
    redis: Redis,
    /** Epoch ms, to the microsecond. */
    public now = Date.now(),
  ) {
    const set = {
      evalsha: async () => {
        throw new Error('NOSCRIPT')
      },
      eval: (lua: string, keys: number, ...rest: string[]) =>
        redis.eval(lua.replaceAll(TIME, TOLD), keys, ...rest, ...this.#time()),
    }
    this.redis = new Proxy(redis, {
      get(target, name) {
        const value: unknown = Reflect.get(name in set ? set : target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  /** As TIME answers: seconds and microseconds. */
  #time(): [string, string] {
    return [String(Math.floor(this.now / 1_000)), String(Math.round((this.now % 1_000) * 1_000))]
  }
}
