import { certifySale, exportSale, type OrderRow, verifyCertificate } from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import {
  broken,
  linesOf,
  order,
  partsOf,
  payment,
  record,
  type Sale,
} from '../suites/certificate-world.js'

/** Two of nine sold; all agree. */
const GOOD: Sale = {
  skus: { s1: [9, 7] },
  orders: [order('1'), order('3')],
  records: [record('1'), record('3')],
  payments: [payment('1'), payment('3')],
}
const closed = (orderNo: string, reason: string, o: Partial<OrderRow> = {}) =>
  order(orderNo, { status: 'closed', reason, ...o })

describe('what a certificate says', () => {
  it('sums by SKU, in units; closed orders by reason, in their order of name', async () => {
    const lines = await linesOf({
      skus: { s1: [20, 11], s2: [5, 4] },
      orders: [
        order('1', { quantity: 2, amountMinor: 200 }),
        order('2', { status: 'confirmed', quantity: 3 }),
        closed('3', 'unpaid', { quantity: 2 }),
        closed('4', 'refunded', { quantity: 4 }),
        closed('5', 'veto:no stock in Hangzhou'),
        closed('6', 'veto:banned'),
        closed('7', 'lost'),
        order('8', { skuId: 's2', userId: 'u1' }),
      ],
      records: [
        record('1', { quantity: 2 }),
        record('2', { state: 'confirmed', quantity: 3 }),
        record('3', { state: 'released', quantity: 2 }),
        record('4', { quantity: 4 }),
        record('5', { state: 'released' }),
        record('8', { skuId: 's2', userId: 'u1' }),
      ],
      payments: [
        payment('1', { capturedMinor: 200 }),
        payment('4', { status: 'refunded', refundingMinor: 100, refundedMinor: 100 }),
        payment('8', { skuId: 's2' }),
      ],
    })
    const { certificate, violations } = await verifyCertificate(lines)
    expect(violations).toEqual([])
    expect(certificate).toMatchObject({ orders: 8, records: 6, payments: 3, violations: 0 })
    expect(JSON.stringify(certificate.skus)).toBe(
      JSON.stringify([
        {
          ...{ skuId: 's1', units: 20, sold: 2, confirmed: 3, refunded: 4, returned: 3 },
          ...{ available: 11, closed: { lost: 1, refunded: 1, unpaid: 1, veto: 2 } },
        },
        {
          ...{ skuId: 's2', units: 5, sold: 1, confirmed: 0, refunded: 0, returned: 0 },
          ...{ available: 4, closed: {} },
        },
      ]),
    )
  })

  it('lines are what is known of each: the sale and its seal, then by number order, record, payment', async () => {
    const lines = (await linesOf(GOOD)).map((line) => JSON.parse(line))
    expect(lines.map((l) => `${l.kind} ${l.orderNo ?? ''}`.trim())).toEqual([
      ...['sale', 'sku', 'order 1', 'record 1', 'payment 1', 'order 3', 'record 3', 'payment 3'],
      'certificate',
    ])
    const [sale, of, first, kept, money] = lines.map(({ chain: _, ...line }) => line)
    expect(sale).toMatchObject({
      ...{ schema: 1, activityId: 'a1', version: 'v1', payments: true },
      seal: { epoch: 7, records: 2, sealedAt: 1_790_000_000_000 },
    })
    expect(of).toEqual({ kind: 'sku', skuId: 's1', units: 9, available: 7 })
    expect(first).toEqual({
      ...{ kind: 'order', orderNo: '1', userId: 'u1', quantity: 1, status: 'paid', reason: null },
      ...{ amountMinor: 100, currency: 'CNY' },
    })
    expect(kept).toEqual({
      ...{ kind: 'record', orderNo: '1', userId: 'u1', quantity: 1, state: 'paid', bucket: 0 },
      reservedAt: 1_790_000_000_000,
    })
    expect(money).toMatchObject({ kind: 'payment', paymentId: 'p1', capturedMinor: 100 })
    expect(money).not.toHaveProperty('skuId')
  })

  it('stops when told to, and asks for the seal', async () => {
    const parts = await partsOf(GOOD)
    const signal = AbortSignal.abort()
    await expect(certifySale(parts, 'a1', { signal })).rejects.toThrow(/abort/i)
    parts.seals.seal = null
    await expect(certifySale(parts, 'a1')).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await expect(exportSale(parts, 'other').next()).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })
})

describe('the laws, each at its border', () => {
  const law = async (change: Partial<Sale>) => broken({ ...GOOD, ...change })
  const one = (o: Partial<OrderRow>, state: 'confirmed' | 'paid' | 'released' | null) => {
    const records = state ? [record('1', { state })] : []
    const paid = o.status === 'closed' || o.status === 'confirmed' ? [] : [payment('1')]
    const held = o.status === 'closed' && o.reason !== 'refunded' ? 0 : 1
    return {
      skus: { s1: [9, 9 - held] as const },
      orders: [order('1', o)],
      records,
      payments: paid,
    }
  }

  it.each([
    ['confirmed', 'confirmed', null],
    ['confirmed', 'paid', 'record-differs'],
    ['confirmed', 'released', 'record-differs'],
    ['confirmed', null, 'record-missing'],
    ['paid', 'paid', null],
    ['paid', 'confirmed', null],
    ['paid', 'released', 'record-differs'],
    ['paid', null, 'record-missing'],
    ['refunded', 'paid', null],
    ['refunded', 'confirmed', null],
    ['refunded', 'released', 'record-differs'],
    ['refunded', null, 'record-missing'],
    ['closed', 'released', null],
    ['closed', 'confirmed', null],
    ['closed', null, null],
    ['closed', 'paid', 'record-differs'],
  ] as const)(
    'an order that is %s and a record that is %s: %s',
    async (status, state, expected) => {
      const row =
        status === 'refunded'
          ? { status: 'closed' as const, reason: 'refunded' }
          : status === 'closed'
            ? { status, reason: 'unpaid' }
            : { status }
      expect(await broken(one(row, state))).toEqual(expected ? [expected] : [])
    },
  )

  it('a record without an order, or of another buyer or quantity', async () => {
    const records = (GOOD.records ?? []).concat(record('2', { state: 'released' }))
    expect(await law({ records })).toEqual(['order-missing'])
    expect(await law({ records: [record('1', { userId: 'x' }), record('3')] })).toEqual([
      'record-differs',
    ])
    expect(await law({ records: [record('1', { quantity: 2 }), record('3')] })).toEqual([
      'record-differs',
    ])
  })

  it('units: exactly all, one too many, one that is nowhere; refunded ones are not on sale', async () => {
    expect(await law({ skus: { s1: [2, 0] } })).toEqual([])
    expect(await law({ skus: { s1: [1, 0] } })).toEqual(['oversold', 'units-differ'])
    expect(await law({ skus: { s1: [9, 6] } })).toEqual(['units-differ'])
    const back = { status: 'closed', reason: 'refunded' } as const
    const payments = [payment('1', { status: 'refunded', refundingMinor: 100 }), payment('3')]
    const orders = [order('1', back), order('3')]
    expect(await law({ orders, payments })).toEqual([])
    expect(await law({ orders, payments, skus: { s1: [9, 8] } })).toEqual(['units-differ'])
  })

  it('a buyer has one live order of an SKU; of two SKUs, or closed ones, as many as he likes', async () => {
    const twice = (o: Partial<OrderRow>) => ({
      skus: { s1: [9, o.skuId || o.status === 'closed' ? 8 : 7] as const, s2: [9, 8] as const },
      orders: [order('1'), order('3', { userId: 'u1', ...o })],
      records: [record('1'), record('3', { userId: 'u1', skuId: o.skuId ?? 's1' })],
      payments: [payment('1'), payment('3', { skuId: o.skuId ?? 's1' })],
    })
    expect(await broken({ ...twice({}), skus: { s1: [9, 7] } })).toEqual(['second-order'])
    expect(await broken(twice({ skuId: 's2' }))).toEqual([])
  })

  it('the records are those sealed, in number and in what they say', async () => {
    expect(await law({ seal: { records: 3 } })).toEqual(['seal'])
    expect(await law({ seal: { checksum: 'f'.repeat(64) } })).toEqual(['seal'])
  })

  it.each([
    ['none', [], ['unpaid', 'unpaid']],
    ['of another amount', [payment('1', { capturedMinor: 99 }), payment('3')], ['unpaid']],
    ['of another currency', [payment('1', { currency: 'USD' }), payment('3')], ['unpaid']],
    [
      'under another number, before it',
      [payment('1', { paidOrderNo: '3' }), payment('3', { paidOrderNo: '1' })],
      [],
    ],
    [
      'a second one',
      [payment('1'), payment('1', { paymentId: 'q' }), payment('3')],
      ['money-without-order'],
    ],
    [
      'a second one, before its number comes',
      [
        payment('1', { paidOrderNo: '3' }),
        payment('1', { paymentId: 'q' }),
        payment('1', { paymentId: 'r', paidOrderNo: '3' }),
        payment('3', { status: 'closed', paidOrderNo: null, capturedMinor: 0 }),
      ],
      ['money-without-order'],
    ],
    [
      'that went back in full',
      [payment('1'), payment('2', { status: 'refunding', refundingMinor: 100 }), payment('3')],
      [],
    ],
    [
      'that went back in part',
      [payment('1'), payment('2', { status: 'refunding', refundingMinor: 99 }), payment('3')],
      ['money-without-order'],
    ],
    [
      'that paid an order once, and went back',
      [
        payment('1'),
        payment('2', { status: 'refunded', paidOrderNo: '1', refundingMinor: 100 }),
        payment('3'),
      ],
      [],
    ],
    [
      'that fits nothing',
      [payment('1'), payment('2', { status: 'anomaly', paidOrderNo: null }), payment('3')],
      ['money-without-order'],
    ],
    [
      'that never came',
      [
        payment('1'),
        payment('2', { status: 'closed', paidOrderNo: null, capturedMinor: 0 }),
        payment('3'),
      ],
      [],
    ],
    [
      'for an order that is none',
      [payment('1'), payment('3'), payment('4')],
      ['money-without-order'],
    ],
  ] as const)('money: %s', async (_, payments, laws) => {
    expect(await law({ payments })).toEqual(laws)
  })

  it('without payments, or without records in strong mode, their laws are not asked', async () => {
    const { payments: _, ...bare } = GOOD
    expect(await broken(bare)).toEqual([])
    const { seals: __, ...strong } = await partsOf({
      ...bare,
      records: [],
      activity: { mode: 'strong' },
    })
    const lines: string[] = []
    for await (const line of exportSale(strong, 'a1')) lines.push(line)
    expect((await verifyCertificate(lines)).violations).toEqual([])
  })
})

describe('what was done to an export', () => {
  it('the chain breaks at the line that was changed, and there alone', async () => {
    const lines = await linesOf(GOOD)
    const changed = lines.map((l, i) => (i === 2 ? l.replace('"reason":null', '"reason":"x"') : l))
    const { violations, certificate } = await verifyCertificate(changed)
    expect(violations.map((v) => `${v.line} ${v.law}`)).toEqual(['3 chain'])
    expect(certificate.violations).toBe(1)
  })

  it('lines of an SKU out of order, twice, of none, or of a second sale', async () => {
    const lines = await linesOf(GOOD)
    const laws = async (...picked: readonly number[]) => {
      const { violations } = await verifyCertificate(picked.map((i) => lines[i] as string))
      return violations.filter((v) => v.law === 'disordered').map((v) => v.line)
    }
    expect(await laws(0, 1, 2, 3, 4, 5, 6, 7, 8)).toEqual([])
    expect(await laws(0, 1, 5, 2, 8)).toEqual([4])
    expect(await laws(0, 1, 2, 2, 8)).toEqual([4])
    expect(await laws(0, 1, 3, 3, 8)).toEqual([4])
    expect(await laws(0, 2, 8)).toEqual([2])
    expect(await laws(0, 0, 1, 8)).toEqual([2])
    expect(await laws(0, 1, 8, 2)).toContain(4)
    expect(await laws(0, 1, 8, 8)).toContain(4)
  })

  it('the first certificate counts, and only what the sale itself broke is in it', async () => {
    const lines = await linesOf({ ...GOOD, skus: { s1: [9, 6] } })
    const verified = async (more: readonly string[]) =>
      (await verifyCertificate([...lines.slice(0, -1), ...more])).violations.map((v) => v.law)
    const last = lines.at(-1) as string
    expect(await verified([last])).toEqual(['units-differ'])
    expect(await verified([last, '', '  \n'])).toEqual(['units-differ'])
    expect(await verified([])).toEqual(['units-differ', 'certificate'])
    const junk = [...lines.slice(0, 2), 'junk', ...lines.slice(2)]
    const laws = (await verifyCertificate(junk)).violations.map((v) => `${v.line} ${v.law}`)
    expect(laws).toEqual(['3 unreadable', '3 chain', '4 chain', '2 units-differ'])
    const another = last.replace('"orders":2', '"orders":3')
    expect(await verified([last, another])).toEqual(['units-differ', 'chain', 'disordered'])
  })

  it('at most 1,000 violations are told, and all are counted', async () => {
    const lines = await linesOf(GOOD)
    const junk = Array.from({ length: 700 }, () => 'junk')
    const { violations, certificate } = await verifyCertificate([...junk, ...lines])
    expect(violations).toHaveLength(1_000)
    expect(certificate.violations).toBe(1_400)
  })

  it.each([
    ['order', { quantity: 0 }],
    ['order', { quantity: 1_001 }],
    ['order', { status: 'sold' }],
    ['order', { amountMinor: -1 }],
    ['order', { userId: '' }],
    ['record', { state: 'gone' }],
    ['record', { quantity: 1.5 }],
    ['sku', { units: -1 }],
    ['sku', { available: '7' }],
    ['sku', { skuId: 'a:b' }],
    ['payment', { capturedMinor: 0.5 }],
    ['payment', { refundingMinor: null }],
    ['payment', { refundedMinor: -1 }],
    ['payment', { paymentId: 7 }],
    ['sale', { activityId: '' }],
  ])('a %s with %j is unreadable', async (kind, change) => {
    const lines = (await linesOf(GOOD)).map((text) => {
      const line = JSON.parse(text)
      return line.kind === kind ? JSON.stringify({ ...line, ...change }) : text
    })
    const { violations } = await verifyCertificate(lines)
    expect(violations.map((v) => v.law)).toContain('unreadable')
  })
})
