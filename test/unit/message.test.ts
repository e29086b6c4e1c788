import { expect, it } from 'vitest'
import { parseBatch } from '../../src/core/message.js'
import type { Batch } from '../../src/core/types.js'
import { REF, reservationOf } from '../suites/stock-bucket/world.js'

const GOOD: Batch = { schema: 1, batchId: 'b1', ...REF, reservations: [reservationOf()] }
const text = (o: object = {}, r: object = {}) =>
  JSON.stringify({ ...GOOD, reservations: [{ ...reservationOf(), ...r }], ...o })

it('reads what a batch is written as', () => {
  const payload = { note: '秒杀🔥', deep: [[{ a: null }]], big: '1849302938475629013' }
  const batch = {
    ...GOOD,
    reservations: [reservationOf({ payload }), reservationOf({ orderNo: 'o2' })],
    mac: 'x',
  }
  expect(parseBatch(JSON.stringify(batch))).toEqual(batch)
  expect(parseBatch(text({ reservations: [] })).reservations).toEqual([])
})

it('C11 keeps ids of 19 digits as they are written', () => {
  const userId = '1849302938475629013'
  expect(parseBatch(text({}, { userId, orderNo: userId })).reservations[0]).toMatchObject({
    userId,
    orderNo: userId,
  })
})

it('takes from the batch what its reservations leave out, and nothing else', () => {
  const { activityId: _, skuId: __, bucket, version, ...own } = reservationOf()
  const short = { ...GOOD, bucket, version, reservations: [own] }
  expect(parseBatch(JSON.stringify(short))).toEqual(GOOD)
  for (const missing of ['bucket', 'version'] as const)
    expect(() => parseBatch(JSON.stringify({ ...short, [missing]: undefined }))).toThrow(missing)
  const withBuyer = { ...short, userId: 'u1', orderNo: 'o1', reservations: [{}] }
  expect(() => parseBatch(JSON.stringify(withBuyer))).toThrow('orderNo')
})

it('drops what it does not know, so that a later schema may add to it', () => {
  const more = parseBatch(text({ sentBy: 'x' }, { colour: 'red' }))
  expect(more).toEqual(GOOD)
})

it.each([
  ['nothing', ''],
  ['half of it', text().slice(0, -9)],
  ['two of them', text() + text()],
  ['null', 'null'],
  ['a number', '5'],
  ['a string', '"batch"'],
  ['an array', `[${text()}]`],
  ['an empty object', '{}'],
  ['no schema', text({ schema: undefined })],
  ['another schema', text({ schema: 2 })],
  ['a schema in letters', text({ schema: '1' })],
  ['no batch id', text({ batchId: undefined })],
  ['a batch id with a blank', text({ batchId: 'b 1' })],
  ['a batch id of 65 characters', text({ batchId: 'b'.repeat(65) })],
  ['no activity', text({ activityId: undefined })],
  ['an activity with braces', text({ activityId: '}x{' })],
  ['no SKU', text({ skuId: null })],
  ['no reservations', text({ reservations: undefined })],
  ['reservations that are none', text({ reservations: { length: 1 } })],
  ['a reservation that is null', text({ reservations: [null] })],
  ['a reservation that is an array', text({ reservations: [[]] })],
  [
    '1,001 reservations',
    text({ reservations: Array.from({ length: 1_001 }, () => reservationOf()) }),
  ],
  ['a reservation of another SKU', text({}, { skuId: 's2' })],
  ['a reservation of another activity', text({}, { activityId: 'a2' })],
  ['no order number', text({}, { orderNo: undefined })],
  ['C11 a bare 19-digit order number', text().replace('"o1"', '1849302938475629013')],
  ['C11 a bare 19-digit buyer', text().replace('"u1"', '1849302938475629013')],
  ['a buyer with a separator', text({}, { userId: 'a|b' })],
  ['a buyer in Chinese', text({}, { userId: '用户' })],
  ['quantity 0', text({}, { quantity: 0 })],
  ['a negative quantity', text({}, { quantity: -5 })],
  ['half a unit', text({}, { quantity: 0.5 })],
  ['a quantity in letters', text({}, { quantity: '1' })],
  ['a quantity with an exponent', text().replace('"quantity":1', '"quantity":1e2000')],
  ['more than 1,000', text({}, { quantity: 1_001 })],
  ['another bucket', text({}, { bucket: 1 })],
  ['no version', text({}, { version: undefined })],
  ['an instant in seconds', text({}, { reservedAt: 1_790_000_000 })],
  ['an instant as text', text({}, { reservedAt: '2026-11-11T00:00:00Z' })],
  ['a payload of more than 1 KiB', text({}, { payload: '秒'.repeat(400) })],
  [
    'C11 a bare big number in the payload',
    text({}, { payload: 'P' }).replace('"P"', '{"id":1849302938475629013}'),
  ],
  [
    'C11 a bare big number deep in the payload',
    text({}, { payload: 'P' }).replace('"P"', '[[{"a":[-9007199254740993]}]]'),
  ],
  ['a mac that is none', text({ mac: 5 })],
  ['an endless mac', text({ mac: 'x'.repeat(201) })],
])('refuses %s with BAD_MESSAGE', (_, message) => {
  expect(() => parseBatch(message)).toThrow(expect.objectContaining({ code: 'BAD_MESSAGE' }))
})

it.each([undefined, null, 5, {}, []])('refuses what is no text: %j', (message) => {
  expect(() => parseBatch(message as never)).toThrow(
    expect.objectContaining({ code: 'BAD_MESSAGE' }),
  )
})

it('is not fooled by a prototype', () => {
  const message = text()
    .replace('{', '{"__proto__":{"schema":1,"batchId":"x"},')
    .replace('"schema":1,"batchId":"b1",', '')
  expect(() => parseBatch(message)).toThrow(expect.objectContaining({ code: 'BAD_MESSAGE' }))
  const polluted = parseBatch(text({}, { payload: 'P' }).replace('"P"', '{"__proto__":{"x":1}}'))
  expect(({} as { x?: number }).x).toBeUndefined()
  expect(Object.keys(polluted.reservations[0]?.payload as object)).toEqual(['__proto__'])
})
