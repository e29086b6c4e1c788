import { createHash } from 'node:crypto'
import {
  certifySale,
  exportSale,
  newOrderNo,
  type PaymentRecords,
  type PaymentRow,
  sealSale,
  verifyCertificate,
} from 'flash-sale-kit'
import { KnexOrderBook, KnexSealStore } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { type FreshRedis, freshRedis } from '../harness/redis.js'
import { AUDIT, openShop, type Shop } from '../suites/pipeline/shop.js'
import { halfSold, keysOf } from '../suites/rebuild/kit.js'

describe.each(['mariadb', 'postgres', 'mysql'] as const)('on Redis and %s', (kind) => {
  let redis: FreshRedis
  let database: FreshDatabase

  beforeAll(async () => {
    ;[redis, database] = await Promise.all([freshRedis(), freshDatabase(kind)])
    await KnexOrderBook.migrate(database.knex)
  })
  afterAll(async () => {
    await redis.destroy()
    await database.destroy()
  })

  const backend = () => ({ redis: redis.redis, knex: database.knex })
  const seals = () => new KnexSealStore({ knex: database.knex })
  const sealOf = (shop: Shop) =>
    sealSale(
      { stock: shop.sale.stock, seals: seals(), activities: shop.activities },
      shop.ref.activityId,
    )

  /** 40 paid, 8 confirmed, 1 closed as unpaid, 1 refunded; stopped. */
  async function ended(): Promise<Shop> {
    const shop = await halfSold(backend())
    const { ref, orders, sale, knex } = shop
    const [unpaid, refunded] = [
      await orders.findByBuyer(ref, 'u49'),
      await orders.findByBuyer(ref, 'u48'),
    ]
    if (!unpaid || !refunded) throw new Error('no such orders')
    await orders.closeUnpaid([unpaid.orderNo], 'unpaid')
    await sale.stock.move([{ to: 'released', reservation: unpaid, reason: 'unpaid' }])
    await sale.stock.move([{ to: 'paid', reservation: refunded }])
    await knex('seckill_order')
      .where({ order_no: refunded.orderNo })
      .update({ status: 'CLOSED', reason: 'refunded', live_key: null })
    await sale.control(ref.activityId, 'stopped', AUDIT)
    return shop
  }

  /** A payment for each paid order, and the refunded one. */
  function paymentsOf(
    shop: Shop,
    change: (row: PaymentRow) => PaymentRow[] = (r) => [r],
  ): PaymentRecords {
    return {
      async *snapshot(ref) {
        for await (const order of shop.orders.snapshot(ref)) {
          const back = order.reason === 'refunded'
          if (order.status !== 'paid' && !back) continue
          const { activityId, skuId, orderNo, amountMinor, currency } = order
          yield* change({
            ...{ activityId, skuId, orderNo, amountMinor, currency, channel: 'c' },
            ...{ paymentId: `p-${orderNo}`, paidOrderNo: orderNo, capturedMinor: amountMinor },
            status: back ? 'refunded' : 'paid',
            refundingMinor: back ? amountMinor : 0,
            refundedMinor: back ? amountMinor : 0,
          })
        }
      },
      find: async () => [],
    }
  }

  async function linesOf(shop: Shop, payments?: PaymentRecords): Promise<string[]> {
    const { activities, orders } = shop
    const parts = { activities, orders, seals: seals(), ...(payments ? { payments } : {}) }
    const lines: string[] = []
    for await (const line of exportSale(parts, shop.ref.activityId)) lines.push(line)
    return lines
  }

  describe('seal', () => {
    test('all records are kept, once, and Redis may go; a repeat answers from the database', async () => {
      const shop = await ended()
      const first = await sealOf(shop)
      expect(first).toMatchObject({ status: 'sealed', fresh: true, seal: { records: 50 } })
      const kept = []
      for await (const record of seals().records(shop.ref)) kept.push(record)
      const inRedis = await shop.sale.stock.reservations(shop.ref, kept)
      if (inRedis === 'not-warmed') throw new Error(inRedis)
      expect(inRedis.map((r) => r && { ...r, reason: undefined })).toEqual(
        kept.map((r) => ({ ...r, reason: undefined })),
      )
      await redis.redis.del(...(await keysOf(redis.redis, shop)))
      expect(await sealOf(shop)).toEqual({ ...first, fresh: false })
      expect(await seals().put(shop.ref, kept)).toBe(false)
      expect(await seals().drop(shop.ref, [kept[0]?.orderNo as string])).toBe(false)
    })

    test('what a killed run has left behind is brought in line', async () => {
      const shop = await ended()
      const [some] = (await shop.sale.stock.scan(shop.ref, '0')).rows
      if (!some) throw new Error('no records')
      const gone = { ...some, orderNo: newOrderNo(), userId: 'x' }
      await seals().put(shop.ref, [gone, { ...some, state: 'held', quantity: 2 }])
      expect(await sealOf(shop)).toMatchObject({ status: 'sealed', seal: { records: 50 } })
      const kept = []
      for await (const record of seals().records(shop.ref)) kept.push(record)
      expect(kept.find((r) => r.orderNo === gone.orderNo)).toBeUndefined()
      expect(kept.find((r) => r.orderNo === some.orderNo)).toEqual(some)
    })

    test('two at once seal the same', async () => {
      const shop = await ended()
      const [a, b] = await Promise.all([sealOf(shop), sealOf(shop)])
      expect(a).toMatchObject({ status: 'sealed' })
      expect(b).toMatchObject({ status: 'sealed', seal: a.status === 'sealed' ? a.seal : null })
    })

    test('an order that changes, and another run that copies it, between the reading and the seal', async () => {
      const shop = await ended()
      const { ref, orders, sale, activities } = shop
      const order = await orders.findByBuyer(ref, 'u47')
      if (!order) throw new Error('no such order')
      const late = seals()
      const finish = late.finish.bind(late)
      let meanwhile = async () => {
        await orders.closeUnpaid([order.orderNo], 'unpaid')
        await sale.stock.move([{ to: 'released', reservation: order, reason: 'unpaid' }])
        await seals().put(ref, (await sale.stock.scan(ref, '0')).rows)
        meanwhile = async () => {}
      }
      late.finish = async (seal) => {
        await meanwhile()
        return finish(seal)
      }
      const parts = { stock: sale.stock, seals: late, activities }
      expect(await sealSale(parts, ref.activityId)).toMatchObject({ status: 'sealed', fresh: true })
      expect(await verifyCertificate(await linesOf(shop))).toMatchObject({ valid: true })
    })

    test('a change and a seal at once: one of them is too late', async () => {
      const seal = { version: '1', epoch: 1, records: 1, checksum: 'f'.repeat(64) }
      for (let i = 0; i < 40; i++) {
        const ref = { activityId: `race-${i}`, skuId: 's1' }
        const number = { ...ref, orderNo: newOrderNo(), userId: 'u1', version: '1', bucket: 0 }
        const paid = { ...number, quantity: 1, reservedAt: Date.now(), state: 'paid' } as const
        if (i % 4 < 2) await seals().put(ref, [paid])
        const generation = await seals().generation(ref.activityId)
        const finish = () => seals().finish({ ...seal, activityId: ref.activityId, generation })
        const sooner = i % 2 ? finish() : null
        const changing = seals().put(ref, [{ ...paid, state: 'released' }])
        const [changed, sealed] = await Promise.all([changing, sooner ?? finish()])
        expect(changed, `round ${i}`).toBe(sealed === null)
      }
    })

    test('a sale that is open, undecided or lost is not sealed', async () => {
      const shop = await openShop(backend())
      expect(await sealOf(shop)).toEqual({ status: 'open' })
      await shop.buy('u1')
      await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)
      expect(await sealOf(shop)).toEqual({ status: 'undecided' })
      await redis.redis.del(...(await keysOf(redis.redis, shop)))
      expect(await sealOf(shop)).toEqual({ status: 'not-warmed' })
      expect(await seals().find(shop.ref.activityId)).toBeNull()
    })

    test('2,500 records, more than two pages', async () => {
      const shop = await openShop(backend(), { units: 2_500 })
      const reservations = Array.from({ length: 2_500 }, (_, i) => ({
        ...{ ...shop.ref, orderNo: newOrderNo(), userId: `u${i}`, quantity: 1 },
        ...{ bucket: 0, version: '1', reservedAt: Date.now() },
      }))
      await shop.orders.confirm(reservations)
      await shop.sale.stock.move(
        reservations.map((reservation) => ({ to: 'confirmed', reservation })),
      )
      await shop.sale.control(shop.ref.activityId, 'stopped', AUDIT)
      expect(await sealOf(shop)).toMatchObject({ status: 'sealed', seal: { records: 2_500 } })
      const lines = await linesOf(shop)
      expect(lines).toHaveLength(2_500 * 2 + 3)
      expect(await verifyCertificate(lines)).toMatchObject({ valid: true })
    })

    test.each([7, '', 'x'.repeat(10_000), 'no-such', 1n])('bad input %s is refused', async (id) => {
      const shop = await openShop(backend(), { warm: false })
      const parts = { stock: shop.sale.stock, seals: seals(), activities: shop.activities }
      await expect(sealSale(parts, id as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      const of = { activities: shop.activities, orders: shop.orders, seals: seals() }
      await expect(certifySale(of, id as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })
  })

  describe('certificate', () => {
    test('says what was sold, and is reckoned again from the export without any server', async () => {
      const shop = await ended()
      await sealOf(shop)
      const payments = paymentsOf(shop)
      const lines = await linesOf(shop, payments)
      const verified = await verifyCertificate(lines)
      expect(verified.violations).toEqual([])
      expect(verified).toMatchObject({
        valid: true,
        certificate: {
          ...{ activityId: shop.ref.activityId, version: '1', violations: 0 },
          ...{ orders: 50, records: 50, payments: 41 },
          skus: [
            {
              ...{ skuId: 's1', units: 100, sold: 40, confirmed: 8, refunded: 1, returned: 1 },
              ...{ available: 51, closed: { refunded: 1, unpaid: 1 } },
            },
          ],
        },
      })
      const { activities, orders } = shop
      const certificate = await certifySale(
        { activities, orders, seals: seals(), payments },
        shop.ref.activityId,
      )
      expect({ ...certificate, at: 0, checksum: '' }).toEqual({
        ...verified.certificate,
        ...{ at: 0, checksum: '' },
      })
      const { checksum } = verified.certificate
      expect(
        (
          await verifyCertificate(
            lines.map((l) => `${l}\n`),
            { checksum },
          )
        ).valid,
      ).toBe(true)
    })

    test('whatever is changed in any line is noticed, and the line is named', async () => {
      const shop = await ended()
      await sealOf(shop)
      const lines = await linesOf(shop, paymentsOf(shop))
      for (let i = 0; i < lines.length; i++) {
        const text = lines[i] as string
        const digit = text.replace(/\d(?=\D*,"chain")/, (d) => String((Number(d) + 1) % 10))
        const changed = spliced(lines, i, 1, digit === text ? text.replace('{', '{ ') : digit)
        const found = await verifyCertificate(changed)
        expect(found.valid, text).toBe(false)
        expect(
          found.violations.map((v) => v.line),
          text,
        ).toContain(i + 1)
        const without = await verifyCertificate(spliced(lines, i, 1))
        expect(without.valid, text).toBe(false)
        const twice = await verifyCertificate(spliced(lines, i, 0, text))
        expect(twice.valid, text).toBe(false)
      }
      const swapped = spliced(lines, 3, 2, lines[4] as string, lines[3] as string)
      expect((await verifyCertificate(swapped)).violations[0]).toMatchObject({
        line: 4,
        law: 'chain',
      })
      expect((await verifyCertificate([])).violations).toEqual([
        { line: 0, law: 'certificate', what: 'it is missing' },
      ])
      for (const bad of ['', 'null', '7', '{}', '[]', '{"kind":"x"}', 'x'.repeat(10_000)]) {
        const found = await verifyCertificate([...lines.slice(0, 5), bad || '{', ...lines.slice(5)])
        expect(found.violations.map((v) => v.law)).toContain('unreadable')
      }
      await expect(verifyCertificate(7 as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await expect(verifyCertificate([7 as never])).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })

    test('who forges line and chain alike cannot forge the checksum that was published', async () => {
      const shop = await ended()
      await sealOf(shop)
      const lines = await linesOf(shop)
      const { checksum } = JSON.parse(lines.at(-1) as string)
      const forged = rechained(lines, (line) => {
        if (line['kind'] === 'order' && line['status'] === 'confirmed') line['amountMinor'] = 1
        return line
      })
      expect((await verifyCertificate(forged)).valid).toBe(true)
      expect((await verifyCertificate(forged, { checksum })).violations).toMatchObject([
        { law: 'certificate', what: 'it is not the one that was published' },
      ])
    })

    test.each([
      ['oversold', (o: Line) => (o['kind'] === 'sku' ? { ...o, units: 10, available: 0 } : o)],
      ['units-differ', (o: Line) => (o['kind'] === 'sku' ? { ...o, available: 50 } : o)],
      ['second-order', (o: Line) => (o['userId'] ? { ...o, userId: 'u1' } : o)],
      ['record-missing', (o: Line) => (o['kind'] === 'record' ? null : o)],
      ['order-missing', (o: Line) => (o['kind'] === 'order' ? null : o)],
      ['record-differs', (o: Line) => (o['kind'] === 'record' ? { ...o, state: 'released' } : o)],
      ['record-differs', (o: Line) => (o['kind'] === 'record' ? { ...o, quantity: 2 } : o)],
      ['seal', (o: Line) => (o['kind'] === 'record' ? { ...o, reservedAt: 1 } : o)],
      ['unpaid', (o: Line) => (o['kind'] === 'payment' ? null : o)],
      ['unpaid', (o: Line) => (o['kind'] === 'payment' ? { ...o, capturedMinor: 99 } : o)],
      [
        'money-without-order',
        (o: Line) => (o['kind'] === 'payment' ? { ...o, refundingMinor: 0, status: 'anomaly' } : o),
      ],
      [
        'money-without-order',
        (o: Line) => (o['kind'] === 'payment' ? { ...o, paidOrderNo: 'z' } : o),
      ],
      ['certificate', (o: Line) => (o['kind'] === 'certificate' ? { ...o, orders: 1 } : o)],
      ['disordered', (o: Line) => (o['kind'] === 'sku' ? null : o)],
    ] as const)('a sale in which a law is broken says so: %s', async (law, change) => {
      const shop = await ended()
      await sealOf(shop)
      const lines = await linesOf(shop, paymentsOf(shop))
      const found = await verifyCertificate(rechained(lines, change))
      expect(found.valid).toBe(false)
      expect(found.violations.map((v) => v.law)).toContain(law)
      expect(found.violations.map((v) => v.law)).not.toContain('chain')
    })

    test('an order that the database lost, or that sold a unit twice, is in the certificate itself', async () => {
      const shop = await ended()
      await sealOf(shop)
      const [row] = await database
        .knex('seckill_order')
        .where({ activity_id: shop.ref.activityId, status: 'PAID' })
        .limit(1)
      await database.knex('seckill_order').where({ order_no: row.order_no }).del()
      const { activities, orders } = shop
      const certificate = await certifySale(
        { activities, orders, seals: seals() },
        shop.ref.activityId,
      )
      expect(certificate.violations).toBe(2)
      const { violations } = await verifyCertificate(await linesOf(shop))
      expect(violations.map((v) => v.law)).toEqual(['order-missing', 'units-differ'])
      expect(violations[0]?.what).toContain(row.order_no)
    })

    test('money that paid under another number is found, wherever that number stands', async () => {
      const shop = await ended()
      await sealOf(shop)
      const numbers: string[] = []
      for await (const o of shop.orders.snapshot(shop.ref))
        if (o.status === 'paid') numbers.push(o.orderNo)
      const [first, last] = [numbers[0] as string, numbers.at(-1) as string]
      const swap: Record<string, string> = { [first]: last, [last]: first }
      const crossed = paymentsOf(shop, (row) => [
        { ...row, paidOrderNo: swap[row.orderNo] ?? row.orderNo },
      ])
      expect((await verifyCertificate(await linesOf(shop, crossed))).violations).toEqual([])
      const doubled = paymentsOf(shop, (row) =>
        row.orderNo === first ? [row, { ...row, paymentId: 'second' }] : [row],
      )
      expect((await verifyCertificate(await linesOf(shop, doubled))).violations).toMatchObject([
        { law: 'money-without-order' },
      ])
    })

    test('a sale that is not sealed has no certificate; in strong mode none is needed', async () => {
      const shop = await openShop(backend())
      const parts = { activities: shop.activities, orders: shop.orders, seals: seals() }
      await expect(certifySale(parts, shop.ref.activityId)).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
      const strong = await openShop(backend(), { activity: { mode: 'strong' } })
      await strong.buy('u1')
      const { activities, orders } = strong
      expect(await certifySale({ activities, orders }, strong.ref.activityId)).toMatchObject({
        ...{ orders: 1, records: 0, violations: 0 },
        skus: [{ confirmed: 1, available: 9 }],
      })
    })

    test('leaving an export early gives its connections back', async () => {
      const shop = await ended()
      await sealOf(shop)
      const { activities, orders } = shop
      for (let i = 0; i < 12; i++)
        for await (const line of exportSale(
          { activities, orders, seals: seals(), payments: paymentsOf(shop) },
          shop.ref.activityId,
        ))
          if (line.includes('"order"')) break
      expect(await shop.orders.numbers(shop.ref)).toMatchObject({ total: 100 })
    })
  })
})

const spliced = (lines: readonly string[], at: number, less: number, ...more: string[]) => [
  ...lines.slice(0, at),
  ...more,
  ...lines.slice(at + less),
]

type Line = Record<string, unknown>

/** A forger's export: lines changed or left out, the chain made good again, the certificate's checksum too. */
function rechained(lines: readonly string[], change: (line: Line) => Line | null): string[] {
  let last = ''
  return lines.flatMap((text) => {
    const { chain: _, ...line } = JSON.parse(text) as Line
    const changed = change(line)
    if (!changed) return []
    const put = changed['kind'] === 'certificate' ? { ...changed, checksum: last } : changed
    const body = JSON.stringify(put).slice(0, -1)
    last = createHash('sha256').update(last).update(body).digest('base64url')
    return [`${body},"chain":"${last}"}`]
  })
}
