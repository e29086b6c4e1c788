import fc from 'fast-check'
import { expect } from 'vitest'
import type { Move, SaleState } from '../../../src/core/types.js'
import type { DeductAnswer } from '../../../src/stock/deduct-batch.js'
import type { StockBucket } from '../../../src/stock/stock-bucket.js'
import type { Ask, SaleModel } from './model.js'
import { candidateOf, doneKey, REF, reservationOf, type World } from './world.js'

/** What processes may do with a sale, for the model tests; each names the sale that it is about. */
export type SaleCommand =
  | { readonly do: 'deduct'; readonly batch: readonly Ask[] }
  | { readonly do: 'move'; readonly moves: readonly Move[] }
  | { readonly do: 'topUp'; readonly units: number; readonly operation: string }
  | { readonly do: 'control'; readonly to: SaleState; readonly revision: number | undefined }

export const MAX = 3
export const users = fc.constantFrom('u1', 'u2', 'u3', 'u4', 'u5')

export const ask: fc.Arbitrary<Ask> = fc
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

export const deductCommand = fc
  .array(ask, { minLength: 1, maxLength: 6 })
  .map((batch): SaleCommand => ({ do: 'deduct', batch }))
export const moveCommand = fc
  .array(move, { minLength: 1, maxLength: 5 })
  .map((moves): SaleCommand => ({ do: 'move', moves }))
export const topUpCommand: fc.Arbitrary<SaleCommand> = fc.record({
  do: fc.constant('topUp' as const),
  units: fc.constantFrom(-7, -2, -1, 1, 2, 5),
  operation: fc.constantFrom('p', 'q', 'r', 's'),
})
export const controlCommand: fc.Arbitrary<SaleCommand> = fc.record({
  do: fc.constant('control' as const),
  to: fc.constantFrom('open', 'stopped'),
  revision: fc.constantFrom(undefined, undefined, 1, 2, 3),
})

/** Does it to Redis and to the model, which must answer alike. */
export async function act(
  c: SaleCommand,
  { world, stock, model }: { world: World; stock: StockBucket; model: SaleModel },
): Promise<void> {
  switch (c.do) {
    case 'deduct': {
      const answers = await world.script(c.batch.map(candidate))
      expect(answers.map(word)).toEqual(model.deduct(c.batch))
      return
    }
    case 'move':
      expect(await stock.move(c.moves)).toEqual(model.move(c.moves))
      return
    case 'topUp': {
      const told = await stock.topUp(REF, c.units, c.operation).then(
        () => 'ok',
        () => 'refused',
      )
      expect(told).toBe(model.topUp(c.units, c.operation))
      return
    }
    case 'control': {
      const { acknowledged } = await stock.control('a1', c.to, c.revision)
      expect(acknowledged).toBe(model.control(c.to, c.revision))
      return
    }
    default:
      c satisfies never
  }
}

export function candidate({ token, ...of }: Ask) {
  return candidateOf(of, { token: token ? { tokenId: token, issue: 1 } : undefined })
}

/** Redis holds what the model holds: numbers and records, tombstones and top-ups, as stored and as read by page. */
export async function agree(world: World, stock: StockBucket, model: SaleModel): Promise<void> {
  expect(await stock.numbers(REF)).toMatchObject(model.numbers())
  const { ' ': _, ...done } = await world.redis.hgetall(doneKey('s1'))
  const rows = Object.entries(done).map(([field, record]) => {
    const [state, orderNo, quantity, , token] = record.split('|')
    return [field, [state, orderNo, quantity, token].join('|')]
  })
  expect(Object.fromEntries(rows)).toEqual(model.ledger())

  const records = model.records()
  const plain = (r: { userId: string; orderNo: string; state: string; quantity: number } | null) =>
    r && `${r.userId} ${r.orderNo} ${r.state} ${r.quantity}`
  const page = await stock.scan(REF, '0')
  expect(page.rows.map(plain).sort()).toEqual(records.map(plain).sort())
  const known = await stock.reservations(REF, records)
  expect(known === 'not-warmed' ? known : known.map(plain)).toEqual(records.map(plain))
  expect([...(await stock.tombstones(REF, '0')).numbers].sort()).toEqual([...model.released].sort())
  const operations = (await stock.topUps(REF)).map((o) => o.operationId)
  expect(operations.sort()).toEqual([...model.operations].sort())
}

export function word(answer: DeductAnswer): string {
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
