import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import type { StockBucket } from '../../src/stock/stock-bucket.js'
import { SetClock } from '../harness/set-clock.js'
import {
  act,
  agree,
  ask,
  candidate,
  MAX,
  moveCommand,
  type SaleCommand,
  word,
} from './stock-bucket/commands.js'
import { type Ask, SaleModel } from './stock-bucket/model.js'
import { CLOSE_AFTER, OWED_AFTER, OwedModel } from './stock-bucket/owed-model.js'
import { HOUR, KEYS, REF, reservationOf, sku, World } from './stock-bucket/world.js'

type Command =
  | SaleCommand
  | { readonly do: 'take'; readonly leaseMs: number; readonly limit: number }
  /** `batch` picks one of those that were sent to Redis so far. */
  | { readonly do: 'accepted' | 'settled' | 'send again'; readonly batch: number }
  | { readonly do: 'overdue'; readonly lateMs: number }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'save' | 'fail over' }

const UNITS = 6
const HIGH = 4
/** Exactly at a deadline, one before, one after, and far from any. */
const spans = [OWED_AFTER, CLOSE_AFTER, 30_000].flatMap((ms) => [ms - 1, ms, ms + 1])
const one = fc.integer({ min: 0, max: 9 })
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    // As in a bucket's batches, where unequal calls of one buyer go to different ones.
    arbitrary: fc
      .uniqueArray(ask, { minLength: 1, maxLength: 3, selector: (a) => a.userId })
      .map((batch): Command => ({ do: 'deduct', batch })),
  },
  { weight: 3, arbitrary: moveCommand },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      leaseMs: fc.constantFrom(30_000, CLOSE_AFTER),
      limit: fc.constantFrom(1, 2, 100),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('accepted' as const, 'settled' as const, 'send again' as const),
      batch: one,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(0, 1, 30_000).map((lateMs): Command => ({ do: 'overdue', lateMs })),
  },
  { weight: 7, arbitrary: fc.constantFrom(...spans).map((ms): Command => ({ do: 'wait', ms })) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('save' as const, 'fail over' as const).map((d) => ({ do: d })),
  },
)

/** Whatever is held is owed to somebody: relays, lost answers and failovers in any order, the time being set. */
export function owedModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`Q1 what is owed is handed out when it is due, to one at a time (${engine} Redis)`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 30 }), async (commands) => {
        const clock = new SetClock(await open())
        const world = new World(clock.redis, engine)
        const endsAt = clock.now + 240 * HOUR
        const terms = { skus: [sku(UNITS)], maxPerOrder: MAX, watermark: HIGH, endsAt }
        const run = new Run(clock, world, await world.sale(terms))
        for (const c of commands) await run.step(c)
        await run.agree()
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

class Run {
  private sale = new SaleModel(UNITS, MAX, HIGH)
  private owed = new OwedModel()
  private saved: { sale: SaleModel; owed: OwedModel; contents: Record<string, unknown> } | null =
    null
  private readonly batches: { readonly batchId: string; readonly asks: readonly Ask[] }[] = []

  constructor(
    private readonly clock: SetClock,
    private readonly world: World,
    private readonly stock: StockBucket,
  ) {}

  async step(c: Command): Promise<void> {
    const { clock, owed, sale, stock, world } = this
    switch (c.do) {
      case 'deduct':
        this.batches.push({ batchId: `b${this.batches.length}`, asks: c.batch })
        await this.deduct(this.batches.length - 1)
        break
      case 'send again':
        if (this.batches.length > 0) await this.deduct(c.batch % this.batches.length)
        break
      case 'take': {
        const taken = await stock.takeOwed('a1', c)
        const told = taken.map(({ due, bornAt, batch: { batchId, reservations } }) => ({
          ...{ due, bornAt, batchId, numbers: reservations.map((r) => r.orderNo) },
        }))
        const due = owed.take(clock.now, c.leaseMs, c.limit)
        const held = due.map((t) => ({ ...t, numbers: this.heldOf(t.batchId) }))
        expect(told).toEqual(held.filter((t) => t.numbers.length > 0))
        for (const { batchId, numbers } of held)
          if (numbers.length === 0) owed.delivered(batchId, 'settled', clock.now)
        break
      }
      case 'accepted':
      case 'settled': {
        const batchId = `b${c.batch % Math.max(1, this.batches.length)}`
        const reservations = [reservationOf()]
        await stock.delivered({ schema: 1, batchId, ...REF, reservations }, c.do)
        owed.delivered(batchId, c.do, clock.now)
        break
      }
      case 'overdue':
        expect(await stock.overdue('a1', c)).toEqual(owed.overdue(clock.now, c.lateMs))
        break
      case 'wait':
        clock.now += c.ms
        break
      case 'save': {
        const contents = await world.contents()
        this.saved = { sale: sale.clone(), owed: owed.clone(), contents }
        break
      }
      case 'fail over':
        if (!this.saved) return
        this.sale = this.saved.sale.clone()
        this.owed = this.saved.owed.clone()
        await world.restore(this.saved.contents)
        break
      default:
        await act(c, { world, stock, model: sale })
    }
  }

  /** The client sends a batch once more when it was reconnected before the answer came. */
  private async deduct(batch: number): Promise<void> {
    const { batchId, asks } = this.batches[batch] as (typeof this.batches)[number]
    const { clock, owed, sale, world } = this
    const before = sale.seq
    const expected = sale.deduct(asks, owed.born.has(batchId))
    const more = { batchId, owedAfterMs: OWED_AFTER }
    expect((await world.script(asks.map(candidate), more)).map(word)).toEqual(expected)
    if (sale.seq > before) owed.owe(batchId, clock.now)
  }

  private heldOf(batchId: string): string[] {
    const asks = this.batches.find((b) => b.batchId === batchId)?.asks ?? []
    const held = (a: Ask) => this.sale.record(a.userId, a.orderNo)?.state === 'held'
    return asks.filter(held).map((a) => a.orderNo)
  }

  async agree(): Promise<void> {
    const { owed, sale, stock, world } = this
    await world.sound({ units: { s1: sale.S }, watched: false })
    await agree(world, stock, sale)
    expect((await stock.numbers(REF)).owed).toBe(owed.due.size)
    const scores = await world.redis.zrange(KEYS.owed, 0, -1, 'WITHSCORES')
    const due = scores.flatMap((member, i) => (i % 2 ? [] : [[member, Number(scores[i + 1])]]))
    const members = due.filter(([member]) => !String(member).startsWith(' '))
    expect(Object.fromEntries(members)).toEqual(Object.fromEntries(owed.due))
    const { ' ': _, ...kept } = await world.redis.hgetall(KEYS.batch)
    const born = [...owed.born].map(([batchId, at]) => [batchId, String(at)])
    const found = Object.keys(kept).filter((field) => !field.startsWith(' '))
    expect(found.map((batchId) => [batchId, kept[` ${batchId}`]]).sort()).toEqual(born.sort())
    expect(Object.keys(kept)).toHaveLength(2 * born.length)
  }
}
