import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import type { Move } from '../../src/core/types.js'
import type { DeductAnswer } from '../../src/stock/deduct-batch.js'
import type { StockBucket } from '../../src/stock/stock-bucket.js'
import { type Ask, SaleModel } from './stock-bucket/model.js'
import { candidateOf, doneKey, REF, reservationOf, sku, World } from './stock-bucket/world.js'

type Command =
  | { readonly do: 'deduct'; readonly batch: readonly Ask[] }
  | { readonly do: 'move'; readonly moves: readonly Move[] }
  | { readonly do: 'topUp'; readonly units: number; readonly operation: string }
  | { readonly do: 'open' | 'stop' | 'save' | 'fail over' }

const UNITS = 6
const MAX = 3
const HIGH = 4
const users = fc.constantFrom('u1', 'u2', 'u3', 'u4', 'u5')
const ask: fc.Arbitrary<Ask> = fc
  .record({
    userId: users,
    no: fc.constantFrom('a', 'b', 'c'),
    quantity: fc.integer({ min: 1, max: MAX + 1 }),
    token: fc.constantFrom('', '', 't', 's'),
  })
  .map(({ userId, no, quantity, token }) => ({
    userId,
    orderNo: userId + no,
    quantity,
    token: token && userId + token,
  }))
const move: fc.Arbitrary<Move> = fc
  .record({ ask, to: fc.constantFrom('confirmed', 'paid', 'released') })
  .map(({ ask: { userId, orderNo, quantity }, to }): Move => {
    const reservation = reservationOf({ userId, orderNo, quantity })
    return to === 'released' ? { to, reservation, reason: 'x' } : { to: to as 'paid', reservation }
  })
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .array(ask, { minLength: 1, maxLength: 6 })
      .map((batch) => ({ do: 'deduct' as const, batch })),
  },
  {
    weight: 6,
    arbitrary: fc
      .array(move, { minLength: 1, maxLength: 5 })
      .map((moves) => ({ do: 'move' as const, moves })),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('topUp' as const),
      units: fc.constantFrom(-7, -2, -1, 1, 2, 5),
      operation: fc.constantFrom('p', 'q', 'r', 's'),
    }),
  },
  { weight: 1, arbitrary: fc.constantFrom('open', 'stop').map((word) => ({ do: word as 'open' })) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('save', 'fail over').map((word) => ({ do: word as 'save' })),
  },
)

/** Any sequence of what processes may do, also across failovers, leaves Redis as the plain model says. */
export function stockModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`S2 S6 any sequence of calls ends as the model says (${engine} Redis)`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 25 }), async (commands) => {
        const world = new World(await open(), engine)
        const stock = await world.sale({ skus: [sku(UNITS)], maxPerOrder: MAX, watermark: HIGH })
        const run = new Run(world, stock)
        for (const c of commands) await run.step(c)
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

class Run {
  private model = new SaleModel(UNITS, MAX, HIGH)
  private saved: { model: SaleModel; contents: Record<string, unknown> } | null = null

  constructor(
    private readonly world: World,
    private readonly stock: StockBucket,
  ) {}

  async step(c: Command): Promise<void> {
    const { model, stock, world } = this
    switch (c.do) {
      case 'deduct': {
        const candidates = c.batch.map(({ token, ...r }) =>
          candidateOf(r, { token: token ? { tokenId: token, issue: 1 } : undefined }),
        )
        const answers = await world.script(candidates)
        expect(answers.map(word)).toEqual(c.batch.map((a) => model.deduct(a)))
        break
      }
      case 'move':
        expect(await stock.move(c.moves)).toEqual(model.move(c.moves))
        break
      case 'topUp': {
        const told = await stock.topUp(REF, c.units, c.operation).then(
          () => 'ok',
          () => 'refused',
        )
        expect(told).toBe(model.topUp(c.units, c.operation))
        break
      }
      case 'open':
      case 'stop':
        model.open = c.do === 'open'
        await stock.control('a1', model.open ? 'open' : 'stopped')
        break
      case 'save':
        this.saved = { model: model.clone(), contents: await world.contents() }
        break
      case 'fail over':
        if (!this.saved) return
        this.model = this.saved.model.clone()
        await world.restore(this.saved.contents)
        break
      default:
        c satisfies never
    }
    await this.agree()
  }

  private async agree(): Promise<void> {
    const { model, world, stock } = this
    await world.sound({ units: { s1: model.S } })
    expect(await stock.numbers(REF)).toMatchObject(model.numbers())
    const { ' ': _, ...done } = await world.redis.hgetall(doneKey('s1'))
    const rows = Object.entries(done).map(([field, record]) => {
      const [state, orderNo, quantity, , token] = record.split('|')
      return [field, [state, orderNo, quantity, token].join('|')]
    })
    expect(Object.fromEntries(rows)).toEqual(model.ledger())
  }
}

function word(answer: DeductAnswer): string {
  if (!('status' in answer)) return answer.code
  switch (answer.status) {
    case 'reserved': {
      const { orderNo, quantity } = answer.reservation
      return `${answer.replayed ? 'replay' : 'reserved'} ${orderNo} ${quantity}`
    }
    case 'already-bought':
      return `already-bought ${answer.orderNo}`
    case 'not-enough':
      return `not-enough ${answer.available}`
    default:
      return answer.status
  }
}
