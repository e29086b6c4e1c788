import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { paceKey } from '../../src/redis/keys.js'
import { ScriptRunner } from '../../src/redis/run-script.js'
import { paceDone, paceTake } from '../../src/redis/scripts.generated.js'
import { SetClock } from '../harness/set-clock.js'
import { expectCapped } from './rate-cap.js'

const CAP = 10
const LEASE_MS = 3_000

type Command =
  | { readonly do: 'take'; readonly orders: number }
  /** Of those that were given room and have not said that they are done. */
  | { readonly do: 'done'; readonly writer: number }
  | { readonly do: 'wait'; readonly ms: number }

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      orders: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: 1, max: CAP }) },
        { weight: 1, arbitrary: fc.constant(CAP + 3) },
      ),
    }),
  },
  { weight: 4, arbitrary: fc.nat({ max: 3 }).map((writer): Command => ({ do: 'done', writer })) },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(1, 20, 49, 300, 950, 999, 1_000, LEASE_MS - 1, LEASE_MS)
      .map((ms): Command => ({ do: 'wait', ms })),
  },
)

interface Turn {
  readonly orders: number
  readonly done: boolean
  readonly until: number
}

/** What was written in the last second, and what is being written. */
class Model {
  readonly turns = new Map<string, Turn>()

  /** 0: go on; otherwise how long to wait. */
  take(turn: string, orders: number, now: number): number {
    for (const [name, { until }] of this.turns) if (until <= now) this.turns.delete(name)
    const all = [...this.turns.values()]
    const sum = all.reduce((n, t) => n + t.orders, 0)
    // More than fits a second goes alone rather than never.
    if (all.length > 0 && sum + orders > CAP)
      return Math.min(50, ...all.filter((t) => t.done).map((t) => t.until - now))
    this.turns.set(turn, { orders, done: false, until: now + LEASE_MS })
    return 0
  }

  done(turn: string, orders: number, now: number): void {
    this.turns.set(turn, { orders, done: true, until: now + 1_000 })
  }
}

/** Writers who come, finish and die at any time: never more than the cap in any second, and no room stays unused for long. */
export function paceModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`Q4 room is given as the model says, and no second sees more than the cap (${engine} Redis)`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 40 }), async (commands) => {
        const clock = new SetClock(await open())
        const runner = new ScriptRunner(clock.redis, 5_000)
        const pace = paceKey('db')
        const model = new Model()
        const writing: { turn: string; orders: number; until: number }[] = []
        const commits: { at: number; orders: number }[] = []
        for (const [i, c] of commands.entries()) {
          if (c.do === 'wait') clock.now += c.ms
          else if (c.do === 'take') {
            const { orders } = c
            const turn = `t${i}`
            const args = { turn, orders, cap: CAP, leaseMs: LEASE_MS }
            const waitMs = model.take(turn, orders, clock.now)
            const told = await runner.run(paceTake, { pace }, args)
            expect(told).toEqual(waitMs === 0 ? [1] : [0, waitMs])
            if (waitMs > 0) continue
            writing.push({ turn, orders, until: clock.now + LEASE_MS })
            await kept(clock.redis, pace)
          } else {
            const [done] = writing.splice(c.writer, 1)
            if (!done) continue
            const { turn, orders } = done
            expect(await runner.run(paceDone, { pace }, { turn, orders })).toEqual([1])
            model.done(turn, orders, clock.now)
            await kept(clock.redis, pace)
            // Who says nothing for a whole lease has died, as far as anybody can know.
            if (clock.now < done.until) commits.push({ at: clock.now, orders })
          }
        }
        expectCapped(
          commits.filter((c) => c.orders <= CAP),
          CAP,
        )
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

/** The key goes by itself some time, by the server's own clock; here it must not go in the middle of a run. */
async function kept(redis: Redis, pace: string): Promise<void> {
  expect(await redis.pttl(pace)).toBeGreaterThan(0)
  await redis.persist(pace)
}
