import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { limits } from '../../src/gate/limit-rules.js'
import { limitKeys } from '../../src/redis/keys.js'
import { ScriptRunner } from '../../src/redis/run-script.js'
import { limit } from '../../src/redis/scripts.generated.js'
import { SetClock } from '../harness/set-clock.js'

/** A token each so many ms, and at most so many tokens. */
const RULES = {
  total: { burst: 5, ms: 500 },
  sku: { burst: 3, ms: 1_000 },
  ip: { burst: 4, ms: 1_000 },
  user: { burst: 2, ms: 2_000 },
} as const
type Rule = keyof typeof RULES
/** As the script looks at them. */
const ORDER = ['total', 'sku', 'ip', 'user'] as const
const WINDOW_MS = Math.max(...ORDER.map((rule) => RULES[rule].burst * RULES[rule].ms))

interface Call {
  readonly user: string
  readonly ip: string
  readonly sku: string
}
interface Command {
  /** How far the clock goes before the calls; it may also be set back. */
  readonly ms: number
  readonly calls: readonly Call[]
}

const call: fc.Arbitrary<Call> = fc.record({
  user: fc.constantFrom('a', 'b', 'c'),
  ip: fc.constantFrom('x', 'y', ''),
  sku: fc.constantFrom('p', 'q', ''),
})
const command: fc.Arbitrary<Command> = fc.record({
  ms: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(0, 0.5, 1, 499, 500, 999, 1_000, 1_001, 2_000) },
    { weight: 2, arbitrary: fc.constantFrom(WINDOW_MS - 1, WINDOW_MS, 3 * WINDOW_MS) },
    { weight: 1, arbitrary: fc.constantFrom(-1, -700, -3_600_000) },
  ),
  calls: fc.array(call, { minLength: 1, maxLength: 6 }),
})

/** Buckets of tokens as anybody would draw them, counted in ms of what refills them. */
class Model {
  private readonly buckets = new Map<string, { credit: number; at: number }>()
  /** The time by which the buckets fill. It stands still when Redis' clock is set back. */
  private time = 0
  /** When something was last written: of a step back behind it no more is lost than the time since. */
  private written: { readonly time: number; readonly clock: number } | null = null

  check(clock: number, calls: readonly Call[]): string[] {
    const back = this.written !== null && clock < this.written.clock
    if (this.written) this.time = this.written.time + Math.max(0, clock - this.written.clock)
    const told = calls.map((c) => this.one(c))
    if (back || told.includes('pass')) this.written = { time: this.time, clock }
    return told
  }

  /** Redis has forgotten what was full again long ago. */
  forget(): void {
    this.buckets.clear()
    this.written = null
  }

  private one(c: Call): string {
    const names = ORDER.filter((rule) => rule === 'total' || c[rule] !== '')
    for (const rule of names) {
      const missing = RULES[rule].ms - this.credit(rule, c)
      if (missing > 0) return `${rule} ${Math.ceil(missing)}`
    }
    for (const rule of names) {
      const credit = this.credit(rule, c) - RULES[rule].ms
      this.buckets.set(nameOf(rule, c), { credit, at: this.time })
    }
    return 'pass'
  }

  private credit(rule: Rule, c: Call): number {
    const { burst, ms } = RULES[rule]
    const bucket = this.buckets.get(nameOf(rule, c))
    return bucket ? Math.min(burst * ms, bucket.credit + this.time - bucket.at) : burst * ms
  }
}

const nameOf = (rule: Rule, c: Call) => (rule === 'total' ? rule : `${rule} ${c[rule]}`)

/** Whoever calls, from wherever, whatever the clock does: passes and waits are those of plain token buckets. */
export function limitModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`F3 C13 limits are token buckets, to the millisecond (${engine} Redis)`, async () => {
    const rate = (rule: Rule) => ({ burst: RULES[rule].burst, perSecond: 1_000 / RULES[rule].ms })
    const found = limits(
      { total: rate('total'), sku: rate('sku'), ip: rate('ip'), user: rate('user') },
      'model',
    )
    const of = (rule: Rule) => found[rule] ?? { step: 0, room: 0 }
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 25 }), async (commands) => {
        const clock = new SetClock(await open())
        const runner = new ScriptRunner(clock.redis, 5_000)
        const model = new Model()
        const keys = limitKeys('r')
        for (const { ms, calls } of commands) {
          clock.now += ms
          if (ms > 2 * WINDOW_MS) {
            await clock.redis.del(...Object.values(keys))
            model.forget()
          }
          const args = {
            ...{ windowNs: found.window, budget: 1_000, width: 5, count: calls.length },
            ...{ totalStep: of('total').step, totalRoom: of('total').room },
            ...{ ipStep: of('ip').step, ipRoom: of('ip').room },
            ...{ userStep: of('user').step, userRoom: of('user').room },
          }
          const sku = [of('sku').step, of('sku').room].map(String)
          const more = calls.flatMap((c) => [
            ...[c.ip && `i${c.ip}`, `u${c.user}`, c.sku && `s${c.sku}`],
            ...sku,
          ])
          const [, codes, waits] = await runner.run(limit, keys, args, { args: more })
          const left = String(waits).split(' ')
          const told = String(codes)
            .split(' ')
            .map((code) => (code === '0' ? 'pass' : `${ORDER[Number(code) - 1]} ${left.shift()}`))
          expect(told).toEqual(model.check(clock.now, calls))
        }
        for (const key of await clock.redis.keys('seckill:limit:*'))
          expect(await clock.redis.pttl(key)).toBeGreaterThan(0)
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}
