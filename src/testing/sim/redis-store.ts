type Hash = Map<string, string>
type Sorted = Map<string, number>

/** What a Redis remembers: plain values, so that any state of it can be kept and come back. */
export interface RedisState {
  /** Of the store when it was so. */
  readonly version: number
  readonly hashes: Map<string, Hash>
  readonly sorted: Map<string, Sorted>
  readonly strings: Map<string, string>
}

export type Reply = string | number | null | readonly Reply[]

/** The commands that the library's scripts call. Keys never expire: no run lasts that long. */
export class RedisStore {
  private state: RedisState = empty()
  /** Rises with every write. */
  version = 0

  constructor(private readonly now: () => number) {}

  copy(): RedisState {
    return clone(this.state, this.version)
  }

  restore(state: RedisState | null): void {
    this.version++
    this.state = state ? clone(state, this.version) : empty()
  }

  hash(key: string): ReadonlyMap<string, string> | undefined {
    return this.state.hashes.get(key)
  }

  call(command: string, args: readonly string[]): Reply {
    const [key = '', ...rest] = args
    const { hashes, sorted, strings } = this.state
    const hash = hashes.get(key)
    switch (command.toUpperCase()) {
      case 'TIME':
        return [String(Math.floor(this.now() / 1000)), String((this.now() % 1000) * 1000)]
      case 'INFO':
        return 'maxmemory_policy:noeviction'
      case 'HGET':
        return hash?.get(rest[0] as string) ?? null
      case 'HMGET':
        return rest.map((field) => hash?.get(field) ?? null)
      case 'HEXISTS':
        return hash?.has(rest[0] as string) ? 1 : 0
      case 'HLEN':
        return hash?.size ?? 0
      case 'HGETALL':
        return [...(hash ?? [])].flat()
      case 'HSCAN':
        return ['0', [...(hash ?? [])].flat()]
      case 'HSET':
        return this.hset(key, rest)
      case 'HDEL':
        return this.remove(hashes, key, rest)
      case 'ZADD':
        return this.zadd(key, rest)
      case 'ZREM':
        return this.remove(sorted, key, rest)
      case 'ZCARD':
        return sorted.get(key)?.size ?? 0
      case 'ZSCORE': {
        const score = sorted.get(key)?.get(rest[0] as string)
        return score === undefined ? null : String(score)
      }
      case 'ZRANGE':
        return this.members(key).slice(Number(rest[0]), Number(rest[1]) + 1)
      case 'ZRANGEBYSCORE': {
        const [min, max, , offset, count] = rest.map(Number) as [
          number,
          number,
          number,
          number,
          number,
        ]
        const set = sorted.get(key)
        const within = this.members(key).filter((member) => {
          const score = set?.get(member) ?? 0
          return score >= min && score <= max
        })
        return within.slice(offset, offset + count)
      }
      case 'EXISTS':
        return hashes.has(key) || sorted.has(key) || strings.has(key) ? 1 : 0
      case 'DEL':
      case 'UNLINK':
        this.version++
        for (const each of args) for (const map of [hashes, sorted, strings]) map.delete(each)
        return args.length
      case 'RENAME':
        return this.rename(key, rest[0] as string)
      case 'GET':
        return strings.get(key) ?? null
      case 'SET':
        this.version++
        strings.set(key, rest[0] as string)
        return 'OK'
      case 'PEXPIRE':
      case 'PEXPIREAT':
        return 1
      default:
        throw new Error(`ERR the simulated Redis does not know ${command}`)
    }
  }

  private hset(key: string, pairs: readonly string[]): number {
    this.version++
    const hash = this.state.hashes.get(key) ?? new Map<string, string>()
    this.state.hashes.set(key, hash)
    for (let i = 0; i + 1 < pairs.length; i += 2)
      hash.set(pairs[i] as string, pairs[i + 1] as string)
    return pairs.length / 2
  }

  private zadd(key: string, [score, member]: readonly string[]): number {
    this.version++
    const set = this.state.sorted.get(key) ?? new Map<string, number>()
    this.state.sorted.set(key, set)
    set.set(member as string, Number(score))
    return 1
  }

  private remove(
    from: Map<string, Map<string, unknown>>,
    key: string,
    names: readonly string[],
  ): number {
    const of = from.get(key)
    if (!of) return 0
    this.version++
    const removed = names.filter((name) => of.delete(name)).length
    if (of.size === 0) from.delete(key)
    return removed
  }

  private rename(from: string, to: string): string {
    this.version++
    for (const map of [this.state.hashes, this.state.sorted, this.state.strings]) {
      const value = map.get(from)
      map.delete(to)
      if (value !== undefined) (map as Map<string, unknown>).set(to, value)
      map.delete(from)
    }
    return 'OK'
  }

  /** By score, then by name, as Redis has them. */
  private members(key: string): string[] {
    const set = this.state.sorted.get(key) ?? new Map<string, number>()
    return [...set].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1)).map(([member]) => member)
  }
}

function empty(): RedisState {
  return { version: 0, hashes: new Map(), sorted: new Map(), strings: new Map() }
}

function clone(state: RedisState, version: number): RedisState {
  const maps = <T>(of: Map<string, Map<string, T>>) =>
    new Map([...of].map(([key, value]) => [key, new Map(value)]))
  return {
    version,
    hashes: maps(state.hashes),
    sorted: maps(state.sorted),
    strings: new Map(state.strings),
  }
}
