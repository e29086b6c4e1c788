import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { ScriptRunner } from '../../src/redis/run-script.js'
import { look } from '../../src/stock/rebuild-look.js'
import type { StockBucket } from '../../src/stock/stock-bucket.js'
import { SetClock } from '../harness/set-clock.js'
import {
  act,
  agree,
  controlCommand,
  deductCommand,
  moveCommand,
  type SaleCommand,
  topUpCommand,
  users,
} from './stock-bucket/commands.js'
import { Rebuilder } from './stock-bucket/rebuilder.js'
import { type Key, type Row, SKU_KEYS, TAG_KEYS, TagModel } from './stock-bucket/tag-model.js'
import { activityOf, doneKey, KEYS, REF, sku, stockKey, World } from './stock-bucket/world.js'

interface WarmUp {
  readonly do: 'warm up'
  readonly version: string
  readonly units: number
  readonly live: number
  readonly max: number
}
/** Of the one or the other who rebuilds. */
type Step = { readonly by: number } & (
  | { readonly do: 'stage'; readonly rows: number; readonly times: number }
  | { readonly do: 'stage top-ups' | 'lose collected' }
  | {
      readonly do: 'swap'
      readonly times: number
      readonly above: number
      readonly revision: number
    }
)
type Command =
  | SaleCommand
  | WarmUp
  | Step
  | { readonly do: 'lose'; readonly keys: readonly Key[] }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'flush' | 'save' | 'fail over' }

const HIGH = 4
const UNITS = 5
const database: fc.Arbitrary<readonly Row[]> = fc
  .uniqueArray(
    fc.record({
      userId: users,
      orderNo: fc.constantFrom('a', 'b', 'c', 'd'),
      quantity: fc.integer({ min: 1, max: 3 }),
      state: fc.constantFrom('confirmed', 'paid', 'released'),
    }),
    { maxLength: 9, selector: (r) => r.userId + r.orderNo },
  )
  .map((rows) => rows.map((r) => ({ ...r, orderNo: r.userId + r.orderNo })))
const by = fc.constantFrom(0, 1)
const times = fc.constantFrom(1, 2)
const warmUp: fc.Arbitrary<WarmUp> = fc.record({
  do: fc.constant('warm up'),
  version: fc.constantFrom('v1', 'v1', 'v2'),
  units: fc.constantFrom(UNITS, UNITS, 8),
  live: fc.constantFrom(0, 0, 1),
  max: fc.constantFrom(3, 3, 2),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      ...{ do: fc.constant('stage' as const), by, times },
      rows: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      ...{ do: fc.constant('swap' as const), by, times },
      above: fc.constantFrom(0, 0, 2_000_000_000_000),
      revision: fc.constantFrom(0, 2),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('stage top-ups' as const), by }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('lose collected' as const), by }) },
)
const keys = fc.oneof(
  fc.constantFrom(...TAG_KEYS, ...SKU_KEYS).map((key) => [key]),
  fc.constantFrom([...TAG_KEYS], [...SKU_KEYS]),
)
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 3, arbitrary: deductCommand },
  { weight: 3, arbitrary: moveCommand },
  { weight: 1, arbitrary: topUpCommand },
  { weight: 2, arbitrary: controlCommand },
  { weight: 3, arbitrary: warmUp },
  { weight: 12, arbitrary: step },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), keys }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 1_000) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('flush' as const, 'save' as const, 'fail over' as const),
    }),
  },
)

/** Keys get lost, come back from another time and are made anew by two at once: Redis is whole, or says that it is not. */
export function rebuildModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`C03 C04 S10 whatever befalls the keys, they end as the model says (${engine} Redis)`, async () => {
    const commands = fc.array(command, { minLength: 1, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(commands, database, async (all, rows) => {
        const clock = new SetClock(await open())
        const run = new Run(clock, new World(clock.redis, engine), rows)
        for (const c of all) await run.step(c)
        await run.agree()
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

class Run {
  private tag = new TagModel(HIGH)
  private saved: { tag: TagModel; contents: Record<string, unknown> } | null = null
  private readonly stock: StockBucket
  private readonly working: (Rebuilder | null)[] = [null, null]

  constructor(
    private readonly clock: SetClock,
    private readonly world: World,
    private readonly rows: readonly Row[],
  ) {
    world.activity = activityOf({ skus: [sku(UNITS)], watermark: HIGH, maxPerOrder: 3 })
    this.stock = world.bucket()
  }

  async step(c: Command): Promise<void> {
    const { clock, stock, tag, working, world } = this
    switch (c.do) {
      case 'warm up':
        await this.warmUp(c)
        break
      case 'stage':
      case 'stage top-ups':
      case 'lose collected':
      case 'swap': {
        const at = working[c.by] ?? (await Rebuilder.begin(world))
        working[c.by] = (await this.rebuild(at, c)) === 'goes on' ? at : null
        break
      }
      case 'lose':
        for (const key of c.keys) {
          await world.redis.del({ ...KEYS, stock: stockKey('s1'), done: doneKey('s1') }[key])
          tag.keys.delete(key)
        }
        break
      case 'flush':
        await world.redis.flushall()
        tag.keys.clear()
        for (const at of working) if (at) at.lost = true
        break
      case 'save':
        this.saved = { tag: tag.clone(), contents: await world.contents() }
        break
      case 'fail over':
        if (!this.saved) return
        this.tag = this.saved.tag.clone()
        working.fill(null)
        await world.restore(this.saved.contents)
        break
      case 'wait':
        clock.now += c.ms
        break
      default:
        if (tag.whole) await act(c, { world, stock, model: tag.sale })
        else await this.refused(c)
    }
  }

  private async warmUp({ version, units, live, max: maxPerOrder }: WarmUp): Promise<void> {
    const { clock, stock, tag, world } = this
    const activity = { ...world.activity, version, maxPerOrder, skus: [sku(units)] }
    const told = await stock.warmUp(activity, [{ ...REF, total: units, available: 0, live }])
    const expected = tag.warmUp({ version, units, maxPerOrder }, live, clock.now)
    expect(told.status === 'differs' ? `differs ${told.what}` : told.status).toBe(expected)
    if (expected === 'warmed') world.activity = activity
  }

  private async rebuild(at: Rebuilder, c: Step): Promise<'goes on' | 'ends'> {
    const { clock, tag, world } = this
    switch (c.do) {
      case 'stage': {
        const first = at.staged.length
        const [code] = await at.stage(this.rows.slice(first, first + c.rows), c.times)
        expect(code).toBe(at.lost ? 0 : 1)
        return at.lost ? 'ends' : 'goes on'
      }
      case 'stage top-ups': {
        const gone = (await world.redis.exists(at.keys.stock('s1'))) === 0
        expect((await at.topUps())[0]).toBe(gone ? 0 : 1)
        return gone ? 'ends' : 'goes on'
      }
      case 'lose collected':
        await world.redis.del(at.keys.done('s1'), at.keys.stock('s1'))
        at.lost = true
        return 'goes on'
      default: {
        const collected = at.collected(c)
        const send = at.swap(collected)
        const first = await send()
        if (at.lost) {
          const otherwise = tag.clone().swap(collected, clock.now)
          expect(first).toEqual([otherwise === 'rebuilt' ? 0 : -1])
          return 'ends'
        }
        const done = tag.swap(collected, clock.now) === 'rebuilt'
        expect(first).toEqual(done ? [1, String(tag.epoch)] : [-1])
        if (c.times > 1) expect(await send()).toEqual(first)
        return 'ends'
      }
    }
  }

  /** Nothing is sold, moved or topped up on keys that are not of one piece, whichever is gone. */
  private async refused(c: SaleCommand): Promise<void> {
    const { stock, tag, world } = this
    if (c.do === 'control') {
      const reachable = TAG_KEYS.every((name) => tag.keys.has(name))
      const { acknowledged } = await stock.control('a1', c.to, c.revision)
      expect(acknowledged).toBe(reachable ? tag.sale.control(c.to, c.revision) : 0)
      return
    }
    await world.unchanged(async () => {
      if (c.do === 'deduct') {
        const answer = await stock.deduct(world.request(c.batch[0]?.userId ?? ''))
        expect(answer).toEqual({ status: 'not-warmed' })
        return
      }
      const call = c.do === 'move' ? stock.move(c.moves) : stock.topUp(REF, c.units, c.operation)
      await expect(call).rejects.toMatchObject({ code: 'NOT_WARMED' })
    })
  }

  async agree(): Promise<void> {
    const { stock, tag, world } = this
    const { sale } = tag
    const has = (name: Key) => tag.keys.has(name)
    expect(await look(new ScriptRunner(world.redis, 5_000), world.activity)).toMatchObject({
      status: tag.whole ? 'warm' : 'not-warmed',
      epoch: has('sale') ? tag.epoch : 0,
      seq: has('sale') ? sale.seq : 0,
      state: has('sale') && sale.open ? 'open' : 'stopped',
      version: has('sale') ? tag.version : '',
      waiting: has('sale') ? sale.waiting : 0,
      records: { s1: has('done') ? sale.marks.size + sale.beside.size : 0 },
    })
    if (!tag.whole) return
    await world.sound({ units: { s1: sale.S } })
    await agree(world, stock, sale)
    expect(await stock.numbers(REF)).toMatchObject({
      ...{ version: tag.version, state: sale.open ? 'open' : 'stopped' },
    })
  }
}
