import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { paceKey } from '../../src/redis/keys.js'
import { ScriptRunner } from '../../src/redis/run-script.js'
import { paceDone, paceRenew, paceTake } from '../../src/redis/scripts.generated.js'
import { SetClock } from '../harness/set-clock.js'
import { expectCapped } from './rate-cap.js'

const CAP = 10
const LEASE_MS = 3_000

type Command =
  /** `twice`: the client sends it again, as after a lost connection. */
  | { readonly do: 'take'; readonly orders: number; readonly twice: boolean }
  /** Of those that have to wait. */
  | { readonly do: 'again'; readonly waiter: number }
  | { readonly do: 'give up'; readonly waiter: number }
  /** Of those that were given room and have not said that they are done. */
  | { readonly do: 'done'; readonly writer: number }
  | { readonly do: 'renew'; readonly writer: number }
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
      twice: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('again' as const, 'again' as const, 'give up' as const),
      waiter: fc.nat({ max: 2 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('done' as const, 'done' as const, 'renew' as const),
      writer: fc.nat({ max: 3 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(1, 20, 49, 300, 950, 999, 1_000, LEASE_MS - 1, LEASE_MS)
      .map((ms): Command => ({ do: 'wait', ms })),
  },
)

interface Turn {
  readonly orders: number
  readonly is: 'waiting' | 'writing' | 'done'
  readonly until: number
  readonly came: number
}

/** What was written in the last second, what is being written, and who waits to write. */
class Model {
  readonly turns = new Map<string, Turn>()

  /** 0: go on; otherwise how long to wait. */
  take(turn: string, orders: number, now: number): number {
    for (const [name, { until }] of this.turns) if (until <= now) this.turns.delete(name)
    const own = this.turns.get(turn)
    const others = [...this.turns].filter(([name]) => name !== turn)
    const waitMs = Math.min(
      50,
      ...others.flatMap(([, t]) => (t.is === 'done' ? [t.until - now] : [])),
    )
    if (own?.is === 'done') return waitMs
    const came = own?.is === 'waiting' ? own.came : now
    // First come, first served; names decide within a millisecond.
    const before = others.filter(
      ([name, t]) => t.is !== 'waiting' || t.came < came || (t.came === came && name < turn),
    )
    const sum = before.reduce((n, [, t]) => n + t.orders, 0)
    // More than fits a second goes alone rather than never.
    const fits = before.length === 0 || sum + orders <= CAP
    const is = fits ? 'writing' : 'waiting'
    this.turns.set(turn, { orders, is, until: now + (fits ? LEASE_MS : 1_000), came })
    return fits ? 0 : waitMs
  }

  renew(turn: string, orders: number, now: number): void {
    this.turns.set(turn, { orders, is: 'writing', until: now + LEASE_MS, came: now })
  }

  done(turn: string, orders: number, now: number): void {
    this.turns.set(turn, { orders, is: 'done', until: now + 1_000, came: now })
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
        const waiting: { turn: string; orders: number }[] = []
        const commits: { at: number; orders: number }[] = []
        const take = async (turn: string, orders: number) => {
          const waitMs = model.take(turn, orders, clock.now)
          const args = { turn, orders, cap: CAP, leaseMs: LEASE_MS }
          const told = await runner.run(paceTake, { pace }, args)
          expect(told).toEqual(waitMs === 0 ? [1] : [0, waitMs])
          if (model.turns.get(turn)?.is !== 'done') await kept(clock.redis, pace)
          return waitMs === 0
        }
        const renew = (turn: string, orders: number) =>
          runner.run(paceRenew, { pace }, { turn, orders, leaseMs: LEASE_MS })
        const done = async (turn: string, orders: number) => {
          expect(await runner.run(paceDone, { pace }, { turn, orders })).toEqual([1])
          model.done(turn, orders, clock.now)
          await kept(clock.redis, pace)
        }
        for (const [i, c] of commands.entries()) {
          if (c.do === 'wait') clock.now += c.ms
          else if (c.do === 'take') {
            const [turn, { orders }] = [`t${i}`, c]
            const given = await take(turn, orders)
            if (c.twice) expect(await take(turn, orders)).toBe(given)
            if (given) writing.push({ turn, orders, until: clock.now + LEASE_MS })
            else waiting.push({ turn, orders })
          } else if (c.do === 'again') {
            const waiter = waiting[c.waiter]
            if (!waiter || !(await take(waiter.turn, waiter.orders))) continue
            waiting.splice(c.waiter, 1)
            writing.push({ ...waiter, until: clock.now + LEASE_MS })
          } else if (c.do === 'give up') {
            const [waiter] = waiting.splice(c.waiter, 1)
            if (!waiter) continue
            const { turn, orders } = waiter
            await done(turn, orders)
            expect(await take(turn, orders), 'a command that came late').toBe(false)
            expect(await renew(turn, orders)).toEqual([0])
          } else {
            const writer = writing[c.writer]
            if (!writer) continue
            const { turn, orders } = writer
            // Who says nothing for a whole lease has died, as far as anybody can know.
            const alive = clock.now < writer.until
            if (c.do === 'renew' && alive) {
              expect(await renew(turn, orders)).toEqual([1])
              model.renew(turn, orders, clock.now)
              await kept(clock.redis, pace)
              writer.until = clock.now + LEASE_MS
              continue
            }
            writing.splice(c.writer, 1)
            await done(turn, orders)
            if (alive) commits.push({ at: clock.now, orders })
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
