import type { RedisStore } from './redis-store.js'

/** A record as Redis keeps it. */
export interface SimRecord {
  readonly userId: string
  readonly orderNo: string
  readonly state: 'h' | 'c' | 'p' | 'r'
  readonly units: number
  /** It lies beside its buyer's mark. */
  readonly beside: boolean
}

/** What Redis says of the sale, read from its keys: spelled out here, so that a wrong key in the library is found. */
export interface SimLedger {
  readonly total: number
  readonly available: number
  readonly frozen: number
  readonly sold: number
  readonly pending: number
  readonly over: number
  readonly waiting: number
  readonly busy: boolean
  readonly open: boolean
  readonly records: ReadonlyMap<string, SimRecord>
  readonly tombstones: ReadonlySet<string>
  /** Units by operation. */
  readonly topUps: ReadonlyMap<string, number>
}

const ACTIVITY = 'a'
const SKU = 's'
export const SIM_REF = { activityId: ACTIVITY, skuId: SKU } as const

/** Null when the keys are not there. */
export function readLedger(store: RedisStore): SimLedger | null {
  const sale = store.hash(`seckill:sale:{${ACTIVITY}}`)
  const stock = store.hash(`seckill:stock:{${ACTIVITY}}:${SKU}`)
  const done = store.hash(`seckill:done:{${ACTIVITY}}:${SKU}`)
  if (!sale || !stock || !done) return null
  const count = (name: string, of: ReadonlyMap<string, string>) =>
    Number(of.get(name) ?? Number.NaN)
  const records = new Map<string, SimRecord>()
  for (const [field, text] of done) {
    if (field === ' ') continue
    const [state, orderNo = '', units] = text.split('|')
    const beside = field.startsWith(' ')
    const userId = beside ? (field.split(' ')[1] ?? '') : field
    records.set(orderNo, {
      ...{ userId, orderNo, beside },
      state: state as SimRecord['state'],
      units: Number(units),
    })
  }
  const operations = [...stock].filter(([field]) => field.length > 1 && field.startsWith(' '))
  const released = store.hash(`seckill:released:{${ACTIVITY}}`) ?? new Map<string, string>()
  return {
    total: count('total', stock),
    available: count('available', stock),
    frozen: count('frozen', stock),
    sold: count('sold', stock),
    pending: count('pending', stock),
    over: count('over', stock),
    waiting: count('waiting', sale),
    busy: sale.get('busy') === '1',
    open: sale.get('state') === 'open',
    records,
    tombstones: new Set([...released.keys()].filter((no) => no !== ' ')),
    topUps: new Map(operations.map(([field, units]) => [field.slice(1), Number(units)])),
  }
}
