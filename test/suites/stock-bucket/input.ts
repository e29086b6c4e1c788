import { describe, expect, it } from 'vitest'
import type { RedisLike } from '../../../src/core/ports.js'
import { StockBucket } from '../../../src/stock/stock-bucket.js'
import { activityOf, numbersOf, REF, reservationOf, type World } from './world.js'

/** C02's table: what is no whole number from 1 on, however it is dressed. */
export const NO_COUNT: readonly unknown[] = [
  -5,
  0,
  0.5,
  Number.NaN,
  Infinity,
  -Infinity,
  -0,
  '0x10',
  '1e2',
  ' 5 ',
  '5\n',
  '５',
  '',
  '5',
  true,
  null,
  [2],
  [],
  {},
  1n,
  2 ** 53,
  2 ** 53 + 2,
  Number.MAX_SAFE_INTEGER,
  1e15,
  1e21,
  Symbol('5'),
  () => 5,
]
/** What is no id of an activity or SKU. */
export const NO_KEY_ID: readonly unknown[] = [
  '',
  ' ',
  'a b',
  'a\n',
  '\0',
  'é',
  '秒杀🔥',
  '}x',
  '{}',
  '{a}{b}',
  'a}b',
  '{',
  '1:2',
  '*',
  'a#1',
  'a|b',
  'x'.repeat(65),
  'x'.repeat(10_000),
  null,
  undefined,
  5,
  Number('9007199254740993'),
  true,
  {},
  ['a1'],
  { toString: () => 'a1' },
  Symbol('a1'),
]
/** What is no id of a buyer or an order. */
export const NO_ID: readonly unknown[] = NO_KEY_ID.filter(
  (id) => typeof id !== 'string' || /[^!-{}~]/.test(id) || id.length < 1 || id.length > 64,
)

const SILENT: RedisLike = {
  evalsha: () => Promise.reject(new Error('asked Redis')),
  eval: () => Promise.reject(new Error('asked Redis')),
}

/** Bad input is refused before any I/O, with one typed error, by every method and for every field. */
export function inputTests(world: () => World): void {
  type Call = (stock: StockBucket, bad: unknown) => Promise<unknown>
  const w = () => world()
  const good = (o: object = {}) => ({ ...REF, userId: 'u1', version: 'v1', ...o })
  const move = (o: object) =>
    [{ to: 'released', reason: 'r', reservation: { ...reservationOf(), ...o } }] as never
  const batch = (o: object) =>
    ({ schema: 1, batchId: 'b1', ...REF, reservations: [], ...o }) as never
  const sku0 = activityOf().skus[0]
  const warm =
    (o: object): Call =>
    (stock) =>
      stock.warmUp({ ...activityOf(), ...o } as never, numbersOf(activityOf()))
  const NO_OBJECT = [null, undefined, 5, 'x', true, [], [{}]]
  const NO_ARRAY = [null, undefined, 5, 'x', {}, { length: 1 }]
  const NO_INSTANT = [
    -1,
    0,
    1_790_000_000,
    1.79e12 + 0.5,
    Number.NaN,
    Infinity,
    '1790000000000',
    '2026-11-11',
    '2026-11-11T00:00',
    new Date(),
    1790000000000n,
    null,
    1e14,
    {},
  ]

  const TABLE: readonly [name: string, bad: readonly unknown[], call: Call][] = [
    ['deduct', NO_OBJECT, (s, x) => s.deduct(x as never)],
    ['deduct activityId', NO_KEY_ID, (s, x) => s.deduct(good({ activityId: x }) as never)],
    ['deduct skuId', NO_KEY_ID, (s, x) => s.deduct(good({ skuId: x }) as never)],
    ['deduct userId', [...NO_ID, 10n ** 70n], (s, x) => s.deduct(good({ userId: x }) as never)],
    ['deduct version', NO_ID, (s, x) => s.deduct(good({ version: x }) as never)],
    [
      'deduct orderNo',
      NO_ID.filter((x) => x !== undefined),
      (s, x) => s.deduct(good({ orderNo: x }) as never),
    ],
    ['C02 deduct quantity', NO_COUNT, (s, x) => s.deduct(good({ quantity: x }) as never)],
    ['deduct token', [null, 5, 't1', [], {}], (s, x) => s.deduct(good({ token: x }) as never)],
    [
      'deduct token.tokenId',
      NO_KEY_ID,
      (s, x) => s.deduct(good({ token: { tokenId: x, issue: 1 } }) as never),
    ],
    [
      'deduct token.issue',
      [-1, 0.5, '1', null, undefined, Number.NaN, 1n, 2 ** 53],
      (s, x) => s.deduct(good({ token: { tokenId: 't1', issue: x } }) as never),
    ],
    [
      'deduct token.stored',
      [false, null, 1, 'true', {}],
      (s, x) => s.deduct(good({ token: { tokenId: 't1', issue: 1, stored: x } }) as never),
    ],
    [
      'deduct payload',
      [
        1n,
        () => 1,
        Symbol('x'),
        'x'.repeat(1_023),
        '秒'.repeat(341),
        { id: Number('1849302938475629013') },
        [2 ** 53],
        1e300,
        cycle(),
      ],
      (s, x) => s.deduct(good({ payload: x }) as never),
    ],
    [
      'deduct signal',
      [null, {}, 5, { aborted: false }],
      (s, x) => s.deduct(good({ signal: x }) as never),
    ],

    ['warmUp activity', NO_OBJECT, (s, x) => s.warmUp(x as never, [])],
    ['warmUp activityId', NO_KEY_ID, (s, x) => warm({ activityId: x })(s, x)],
    ['warmUp version', NO_ID, (s, x) => warm({ version: x })(s, x)],
    ['C08 warmUp opensAt', NO_INSTANT, (s, x) => warm({ opensAt: x })(s, x)],
    [
      'C08 warmUp endsAt',
      [...NO_INSTANT, activityOf().opensAt - 1],
      (s, x) => warm({ endsAt: x })(s, x),
    ],
    [
      'warmUp payWithinMs',
      [...NO_COUNT.filter((x) => typeof x !== 'number'), 999, 1e15],
      (s, x) => warm({ payWithinMs: x })(s, x),
    ],
    ['warmUp mode', [null, 'QUEUED', 1], (s, x) => warm({ mode: x })(s, x)],
    ['warmUp tokens', [null, 'on', true], (s, x) => warm({ tokens: x })(s, x)],
    ['warmUp maxPerOrder', [...NO_COUNT, 1_001], (s, x) => warm({ maxPerOrder: x })(s, x)],
    ['warmUp watermark', [...NO_COUNT, 1], (s, x) => warm({ watermark: x })(s, x)],
    [
      'warmUp skus',
      [...NO_ARRAY, [], [null], new Array(2), [sku0, sku0]],
      (s, x) => warm({ skus: x })(s, x),
    ],
    ['warmUp skuId', NO_KEY_ID, (s, x) => warm({ skus: [{ ...sku0, skuId: x }] })(s, x)],
    [
      'C02 warmUp units',
      [...NO_COUNT, 1_000_000_001],
      (s, x) => warm({ skus: [{ ...sku0, units: x }] })(s, x),
    ],
    [
      'warmUp priceMinor',
      [-1, 0.5, '1', 99.5, null, 1n],
      (s, x) => warm({ skus: [{ ...sku0, priceMinor: x }] })(s, x),
    ],
    [
      'warmUp currency',
      ['', 'cny', 'CN', 'CNYX', null, 5],
      (s, x) => warm({ skus: [{ ...sku0, currency: x }] })(s, x),
    ],
    [
      'warmUp expected',
      [...NO_ARRAY, [], [null], [5], [{ ...REF, skuId: 's2', total: 1, available: 1, live: 0 }]],
      (s, x) => s.warmUp(activityOf(), x as never),
    ],
    [
      'warmUp expected total and live',
      NO_COUNT.filter((x) => x !== 0 && !Object.is(x, -0)),
      async (s, x) => {
        await expect(
          s.warmUp(activityOf(), [{ ...REF, total: x as never, available: 1, live: 0 }]),
        ).rejects.toMatchObject({ code: 'BAD_INPUT' })
        return s.warmUp(activityOf(), [{ ...REF, total: 1, available: 1, live: x as never }])
      },
    ],
    [
      'warmUp tokenEpoch',
      [-1, 0.5, '1', null, Number.NaN, 1n, 1e13],
      (s, x) => s.warmUp(activityOf(), numbersOf(activityOf()), x as never),
    ],

    ['move', NO_ARRAY, (s, x) => s.move(x as never)],
    ['move', [[null], [5], [[]], [{}], new Array(1)], (s, x) => s.move(x as never)],
    [
      'move to',
      [null, 'held', 'closed', 'CONFIRMED', 1],
      (s, x) => s.move([{ to: x, reservation: reservationOf(), reason: 'r' }] as never),
    ],
    ['move reservation', NO_OBJECT, (s, x) => s.move([{ to: 'paid', reservation: x }] as never)],
    ['move activityId', NO_KEY_ID, (s, x) => s.move(move({ activityId: x }))],
    ['move skuId', NO_KEY_ID, (s, x) => s.move(move({ skuId: x }))],
    ['move userId', [...NO_ID, 5n], (s, x) => s.move(move({ userId: x }))],
    ['move orderNo', NO_ID, (s, x) => s.move(move({ orderNo: x }))],
    ['move version', NO_ID, (s, x) => s.move(move({ version: x }))],
    ['C02 move quantity', NO_COUNT, (s, x) => s.move(move({ quantity: x }))],
    ['move bucket', [1, -1, '0', null, undefined], (s, x) => s.move(move({ bucket: x }))],
    ['move reservedAt', NO_INSTANT, (s, x) => s.move(move({ reservedAt: x }))],
    [
      'move reason',
      [undefined, null, '', 'x'.repeat(256), 5, {}],
      (s, x) => s.move([{ to: 'released', reservation: reservationOf(), reason: x }] as never),
    ],

    ['topUp ref', NO_OBJECT, (s, x) => s.topUp(x as never, 1, 'op')],
    ['topUp activityId', NO_KEY_ID, (s, x) => s.topUp({ ...REF, activityId: x } as never, 1, 'op')],
    ['topUp skuId', NO_KEY_ID, (s, x) => s.topUp({ ...REF, skuId: x } as never, 1, 'op')],
    ['C02 topUp units', NO_COUNT.filter((x) => x !== -5), (s, x) => s.topUp(REF, x as never, 'op')],
    ['topUp operationId', NO_ID, (s, x) => s.topUp(REF, 1, x as never)],

    ['control activityId', NO_KEY_ID, (s, x) => s.control(x as never, 'open')],
    [
      'control to',
      [null, undefined, '', 'OPEN', 'closed', 1, true],
      (s, x) => s.control('a1', x as never),
    ],
    [
      'control revision',
      [null, '', '7', -1, 0.5, NaN, Infinity, 2 ** 53],
      (s, x) => s.control('a1', 'open', x as never),
    ],
    ['revokeTokens activityId', NO_KEY_ID, (s, x) => s.revokeTokens(x as never, 1)],
    ['revokeTokens tokenEpoch', [...NO_COUNT, 1e13], (s, x) => s.revokeTokens('a1', x as never)],

    ['takeOwed activityId', NO_KEY_ID, (s, x) => s.takeOwed(x as never, { leaseMs: 1, limit: 1 })],
    ['takeOwed options', NO_OBJECT, (s, x) => s.takeOwed('a1', x as never)],
    [
      'takeOwed leaseMs',
      [...NO_COUNT, undefined],
      (s, x) => s.takeOwed('a1', { leaseMs: x as never, limit: 1 }),
    ],
    [
      'takeOwed limit',
      [...NO_COUNT, 1_001, undefined],
      (s, x) => s.takeOwed('a1', { leaseMs: 1, limit: x as never }),
    ],

    ['delivered batch', NO_OBJECT, (s, x) => s.delivered(x as never, 'accepted')],
    [
      'delivered activityId',
      NO_KEY_ID,
      (s, x) => s.delivered(batch({ activityId: x }), 'accepted'),
    ],
    ['delivered batchId', NO_ID, (s, x) => s.delivered(batch({ batchId: x }), 'settled')],
    [
      'delivered reservations',
      NO_ARRAY,
      (s, x) => s.delivered(batch({ reservations: x }), { closed: [] }),
    ],
    [
      'delivered outcome',
      [
        null,
        undefined,
        '',
        'closed',
        'rejected',
        5,
        true,
        [],
        {},
        { closed: null },
        { closed: 'o1' },
        { closed: [5] },
      ],
      (s, x) => s.delivered(batch({}), x as never),
    ],

    ['reservation ref', NO_OBJECT, (s, x) => s.reservation(x as never, 'u1')],
    ['reservation userId', NO_ID, (s, x) => s.reservation(REF, x as never)],
    [
      'reservations numbers',
      [...NO_ARRAY, [null], [5], [{}]],
      (s, x) => s.reservations(REF, x as never),
    ],
    [
      'reservations orderNo',
      NO_ID,
      (s, x) => s.reservations(REF, [{ userId: 'u1', orderNo: x as never }]),
    ],
    ['scan ref', NO_OBJECT, (s, x) => s.scan(x as never, '0')],
    [
      'scan cursor',
      [null, undefined, 0, '', '-1', '1e3', ' 0', '0\n', '9'.repeat(21), {}],
      (s, x) => s.scan(REF, x as never),
    ],
    ['numbers ref', NO_OBJECT, (s, x) => s.numbers(x as never)],
    ['stop options', [null, 5, []], (s, x) => s.stop(x as never)],
    [
      'stop drainMs',
      [-1, 0.5, '1', null, Number.NaN],
      async (s, x) => {
        await expect(s.stop({ drainMs: x as never })).rejects.toMatchObject({ code: 'BAD_OPTION' })
        return s.stop(null as never)
      },
    ],
  ]

  describe('bad input is refused with BAD_INPUT before Redis is asked', () => {
    it.each(TABLE)('%s', async (_, bad, call) => {
      const stock = new StockBucket({ redis: SILENT, deliver: async () => 'accepted' })
      for (const [i, value] of bad.entries()) {
        const refused = await call(stock, value).then(
          () => 'it was taken',
          (error) => error.code,
        )
        expect(refused, `#${i}: ${typeof value} ${describeBad(value)}`).toBe('BAD_INPUT')
      }
    })
  })

  it('C02 after all of it stock, marks and tokens are what they were', async () => {
    const stock = await w().sale({ tokens: 'required' })
    await w().unchanged(async () => {
      for (const [, bad, call] of TABLE.filter(([name]) => !name.startsWith('stop')))
        for (const value of bad) await call(stock, value).catch(() => {})
    })
    await w().sound()
  })

  it('a bad option is refused by the constructor, with its name', () => {
    const deliver = async () => 'accepted' as const
    for (const [name, o] of [
      ['options', null],
      ['options', []],
      ['redis', { deliver }],
      ['redis', { redis: {}, deliver }],
      ['redis', { redis: { evalsha() {} }, deliver }],
      ['deliver', { redis: SILENT }],
      ['deliver', { redis: SILENT, deliver: 'accepted' }],
      ['onError', { redis: SILENT, deliver, onError: 5 }],
      ...[
        'maxBatch',
        'maxBatchBytes',
        'maxWaiting',
        'maxWaitMs',
        'timeoutMs',
        'maxDeliveries',
        'deliverTimeoutMs',
        'closeAfterMs',
      ].flatMap((option) =>
        [0, -1, 0.5, Number.NaN, Infinity, '5', null, 1e15].map(
          (value) => [option, { redis: SILENT, deliver, [option]: value }] as const,
        ),
      ),
    ] as const)
      expect(() => new StockBucket(o as never), `${name} ${JSON.stringify(o)}`).toThrow(name)
  })
}

function cycle(): unknown {
  const list: unknown[] = []
  list.push(list)
  return list
}

function describeBad(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value).slice(0, 40)
  if (typeof value === 'object') return Object.prototype.toString.call(value)
  return String(value)
}
