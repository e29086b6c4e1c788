import {
  type Fence,
  type LastAct,
  type OrderRow,
  type RebuildParts,
  type RebuildRequest,
  type RebuiltStock,
  type RedisStanding,
  type ReservationRecord,
  rebuildSale,
  type SaleState,
} from 'flash-sale-kit'
import { beforeEach, describe, expect, it } from 'vitest'
import { order, record } from '../suites/certificate-world.js'
import { activityOf, sku } from '../suites/stock-bucket/world.js'

const ann = { actor: 'ann', reason: 'a test' }
const activity = activityOf({ skus: [sku(9)] })

/** Everything that a rebuild talks to, with one log of what it was told, in order. */
class World {
  readonly log: string[] = []
  row: LastAct | null = { state: 'open', actor: 'ann', reason: 'go', revision: 5 }
  fence: Fence = { epoch: 40, seq: 9 }
  standing: Partial<RedisStanding> = {}
  messages: (number | 'unknown' | 'throws')[] = []
  made: RebuiltStock = { status: 'rebuilt', epoch: 50, orders: 2 }
  rows: OrderRow[] = []
  records: ReservationRecord[] | 'not-warmed' = []
  redis = { total: 9, over: 0, available: 9, pending: 0 }
  database = { total: 9, available: 9 }
  looks = 0
  onLook: (n: number) => void = () => {}
  onStop: () => void = () => {}
  rebuilt: object = {}

  readonly parts: RebuildParts = {
    stock: {
      control: async (_: string, to: SaleState, revision?: number) => {
        this.log.push(`Redis ${to} ${revision}`)
        return { acknowledged: 1, of: 1 }
      },
      standing: async () => {
        const records = { s1: 0 }
        const well = { status: 'warm', epoch: 41, seq: 3, state: 'stopped', waiting: 0 } as const
        return { ...well, eviction: 'noeviction', records, ...this.standing }
      },
      rebuild: async (_: unknown, __: unknown, o: object) => {
        this.log.push('rebuild')
        this.rebuilt = o
        return this.made
      },
      reservations: async (_: unknown, asked: readonly { orderNo: string }[]) => {
        if (this.records === 'not-warmed') return this.records
        const known = new Map(this.records.map((r) => [r.orderNo, r]))
        return asked.map((a) => known.get(a.orderNo) ?? null)
      },
      move: async (moves: readonly { to: string; reservation: { orderNo: string } }[]) => {
        for (const m of moves) this.log.push(`${m.to} ${m.reservation.orderNo}`)
        return moves.map(() => 'done')
      },
      numbers: async () => {
        this.onLook(++this.looks)
        return this.redis
      },
    },
    orders: {
      prepare: async () => {
        this.log.push('prepare')
        return []
      },
      numbers: async () => this.database,
      snapshot: async function* (this: World) {
        yield* this.rows
      }.bind(this),
      topUps: async () => null,
    },
    activities: { load: async () => activity },
    control: {
      read: async () => ({ state: this.row?.state, tokenEpoch: 3, revision: this.row?.revision }),
      lastAct: async () => this.row,
      setIf: async (_: string, to: SaleState, by: typeof ann, revision: number) => {
        this.onStop()
        if (this.row?.revision !== revision) return null
        this.row = { state: to, ...by, revision: revision + 1 }
        this.log.push(`row ${to} by ${by.actor}`)
        return revision + 1
      },
    },
    queue: {
      lag: async () => {
        const messages = this.messages.shift() ?? 0
        this.log.push(`lag ${messages}`)
        if (messages === 'throws') throw new Error('away')
        return messages === 'unknown' ? messages : { messages, oldestAgeMs: null }
      },
    },
    fences: {
      read: async () => this.fence,
      raise: async (_: string, fence: Fence) => {
        this.log.push(`fence ${fence.epoch}:${fence.seq}`)
        return fence
      },
    },
  } as unknown as RebuildParts
}

describe('rebuildSale', () => {
  let w: World
  beforeEach(() => {
    w = new World()
  })
  const rebuild = (o: RebuildRequest = {}) => rebuildSale(w.parts, 'a1', ann, o)

  it('stops the row, then Redis; waits, rebuilds above all that was seen, and opens the row first', async () => {
    expect(await rebuild({ reopen: true })).toEqual({
      ...{ status: 'rebuilt', state: 'open', epoch: 50, orders: 2, adopted: 0, returned: 0 },
    })
    expect(w.log).toEqual([
      ...['row stopped by flash-sale-kit', 'Redis stopped 6', 'prepare', 'lag 0', 'rebuild'],
      ...['fence 50:0', 'row open by ann', 'Redis open 7'],
    ])
    expect(w.rebuilt).toMatchObject({ tokenEpoch: 3, above: 40, revision: 6 })
  })

  it('stops in the name of whom asked, and stays stopped, unless it is to be opened again', async () => {
    expect(await rebuild()).toMatchObject({ status: 'rebuilt', state: 'stopped' })
    expect(w.row).toMatchObject({ state: 'stopped', ...ann })
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'stopped' })
    // A stop that the library has made is opened by whoever comes next, if it is asked for.
    w.row = { state: 'stopped', actor: 'flash-sale-kit', reason: 'Redis was lost', revision: 9 }
    expect(await rebuild()).toMatchObject({ state: 'stopped' })
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'open' })
  })

  it.each([
    ['a person', { actor: 'ann', reason: 'Redis was lost' }],
    ['the library, for another reason', { actor: 'flash-sale-kit', reason: 'price' }],
  ])('a stop of %s is not opened', async (_, by) => {
    w.row = { state: 'stopped', revision: 5, ...by }
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'stopped' })
    expect(w.row.revision).toBe(5)
  })

  it('who acts while it is stopping is heard, whatever he did', async () => {
    let raced = false
    w.onStop = () => {
      if (!raced) w.row = { state: 'open', actor: 'bob', reason: 'again', revision: 6 }
      raced = true
    }
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'open' })
    expect(w.log.slice(0, 2)).toEqual(['row stopped by flash-sale-kit', 'Redis stopped 7'])
    w.onLook = () => {
      w.row = { state: 'stopped', actor: 'bob', reason: 'price', revision: 99 }
    }
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'stopped' })
    expect(w.row).toMatchObject({ actor: 'bob' })
    expect(w.log.at(-1)).not.toMatch(/open/)
  })

  it('a row that nobody has touched is not opened', async () => {
    w.row = null
    expect(await rebuild({ reopen: true })).toMatchObject({ state: 'stopped' })
    expect(w.log[0]).toBe('Redis stopped 0')
  })

  it('waits for messages, for reservations, and while nobody can say; but not for ever', async () => {
    w.messages = [2, 'unknown', 'throws']
    await rebuild()
    expect(w.log.filter((l) => l.startsWith('lag'))).toEqual([
      ...['lag 2', 'lag unknown', 'lag throws', 'lag 0'],
    ])
    for (const status of ['warm', 'rewound'] as const) {
      w.log.length = 0
      w.standing = { status, waiting: 1 }
      await rebuild({ waitMs: 120 })
      expect(w.log.filter((l) => l.startsWith('lag')).length).toBeGreaterThan(1)
      expect(w.log).toContain('rebuild')
    }
    w.log.length = 0
    w.standing = { status: 'not-warmed', waiting: 1 }
    await rebuild()
    expect(w.log.filter((l) => l.startsWith('lag'))).toHaveLength(1)
    w.log.length = 0
    await rebuild({ waitMs: 0 })
    expect(w.log.filter((l) => l.startsWith('lag'))).toEqual([])
  })

  it('an aborted one ends before it replaces anything', async () => {
    const stop = new AbortController()
    w.messages = Array(9).fill(1)
    setTimeout(() => stop.abort(), 30)
    await expect(rebuild({ signal: stop.signal })).rejects.toThrow(/abort/i)
    expect(w.log).not.toContain('rebuild')
  })

  it('what was decided meanwhile is told to Redis, each as it needs', async () => {
    const closed = { status: 'closed', reason: 'unpaid' } as const
    w.rows = [
      order('1'),
      order('2', { status: 'confirmed' }),
      order('3', closed),
      order('4', closed),
      order('5'),
      order('6', { status: 'confirmed' }),
      order('7', { status: 'confirmed' }),
      order('8', closed),
    ]
    w.records = [
      record('1', { state: 'confirmed' }),
      record('3', { state: 'confirmed' }),
      record('4', { state: 'held' }),
      record('5'),
      record('6'),
      record('7', { state: 'released' }),
    ]
    expect(await rebuild()).toMatchObject({ status: 'rebuilt', adopted: 2, returned: 2 })
    expect(w.log.filter((l) => /^\w+ \d$/.test(l) && !/lag/.test(l))).toEqual([
      ...['paid 1', 'confirmed 2', 'released 3', 'released 4'],
    ])
  })

  it('looks at every order, however many pages', async () => {
    w.rows = Array.from({ length: 1_001 }, (_, i) => order(String(10_000 + i)))
    expect(await rebuild()).toMatchObject({ adopted: 1_001 })
  })

  it('a Redis that lost its keys again is lost; what the stock answers is handed on', async () => {
    w.rows = [order('1')]
    w.records = 'not-warmed'
    expect(await rebuild({ reopen: true })).toEqual({ status: 'lost' })
    w.rows = Array.from({ length: 500 }, (_, i) => order(String(10_000 + i)))
    expect(await rebuild({ reopen: true })).toEqual({ status: 'lost' })
    for (const status of ['overtaken', 'lost', 'expired'] as const) {
      w.made = { status }
      expect(await rebuild({ reopen: true })).toEqual({ status })
    }
    expect(w.log.filter((l) => l.startsWith('row open'))).toEqual([])
  })

  it.each([
    ['S', { total: 8 }],
    ['what is left', { available: 8 }],
    ['what is over', { over: 1 }],
    ['what waits', { pending: 1 }],
  ])('numbers that do not agree in %s: it differs, and stays stopped', async (_, numbers) => {
    w.redis = { ...w.redis, ...numbers }
    expect(await rebuild({ reopen: true })).toMatchObject({ status: 'differs', skuId: 's1' })
    expect(w.looks).toBeGreaterThan(1)
    expect(w.log.at(-1)).not.toMatch(/open/)
  })

  it('numbers that agree a look later are the same', async () => {
    w.redis = { ...w.redis, total: 11, over: 2, available: 2 }
    w.database = { total: 9, available: 1 }
    w.onLook = (n) => {
      if (n === 2) w.database = { total: 9, available: 0 }
    }
    expect(await rebuild()).toMatchObject({ status: 'rebuilt' })
  })

  it.each([
    ['activity', async () => null],
    ['activity in Redis', async () => ({ ...activity, mode: 'strong' as const })],
  ])('refuses where there is no such %s', async (_, load) => {
    const parts = { ...w.parts, activities: { load } }
    await expect(rebuildSale(parts, 'a1', ann)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    expect(w.log).toEqual([])
  })
})
