import { type RedisStanding, type SealParts, sealSale } from 'flash-sale-kit'
import { KnexOrderBook, KnexSealStore } from 'flash-sale-kit/knex'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { checksumOf, MemorySeals, record, type SealedRecord } from '../suites/certificate-world.js'
import { activityOf, sku } from '../suites/stock-bucket/world.js'

/** A Redis of lists: what is told by a scan, and what by a look-up. */
class Stock {
  readonly records = new Map<string, SealedRecord>()
  standing_: Partial<RedisStanding> = {}
  /** Happens before the n-th look at how Redis stands, the n-th page, the n-th look-up. */
  readonly before: Record<string, () => void> = {}
  private readonly calls: Record<string, number> = {}

  constructor(...records: readonly SealedRecord[]) {
    this.set(...records)
  }
  set(...records: readonly SealedRecord[]): void {
    for (const r of records) this.records.set(r.orderNo, r)
  }
  private call(name: string): void {
    this.calls[name] = (this.calls[name] ?? 0) + 1
    this.before[`${name} ${this.calls[name]}`]?.()
  }
  of(skuId: string): SealedRecord[] {
    return [...this.records.values()].filter((r) => r.skuId === skuId)
  }
  async standing(): Promise<RedisStanding> {
    this.call('standing')
    const records = { s1: this.of('s1').length, s2: this.of('s2').length }
    const well = {
      status: 'warm',
      epoch: 7,
      seq: 3,
      state: 'stopped',
      version: '1',
      waiting: 0,
    } as const
    return { ...well, eviction: 'noeviction', records, ...this.standing_ }
  }
  /** Two records a page. */
  async scan({ skuId }: { skuId: string }, cursor: string) {
    this.call('scan')
    const from = Number(cursor)
    const all = this.of(skuId)
    const next = from + 2 < all.length ? String(from + 2) : null
    return { rows: all.slice(from, from + 2), beside: [], strange: this.strange, next }
  }
  strange: readonly string[] = []
  async reservations(_: unknown, asked: readonly { readonly orderNo: string }[]) {
    this.call('reservations')
    if (this.lost) return 'not-warmed' as const
    return asked.map(({ orderNo }) => this.records.get(orderNo) ?? null)
  }
  lost = false
}

const activity = activityOf({ skus: [sku(9), sku(9, 's2')] })
const five = () => [
  ...['1', '2', '3'].map((no) => record(no)),
  record('4', { skuId: 's2', state: 'released', quantity: 2 }),
  record('5', { state: 'confirmed' }),
]

describe('sealSale', () => {
  const seal = (
    stock: Stock,
    seals = new MemorySeals(),
    o: Partial<SealParts['activities']> & { signal?: AbortSignal } = {},
  ) =>
    sealSale(
      { stock, seals, activities: { load: o.load ?? (async () => activity) } },
      'a1',
      o.signal ? { signal: o.signal } : {},
    )
  const inOrder = (seals: MemorySeals) =>
    [...seals.kept.values()].sort((a, b) => (a.skuId + a.orderNo < b.skuId + b.orderNo ? -1 : 1))

  it('copies all pages of all SKUs, and says what it copied', async () => {
    const seals = new MemorySeals()
    const stock = new Stock(...five())
    const sealed = await seal(stock, seals)
    expect(sealed).toMatchObject({ status: 'sealed', fresh: true })
    expect(seals.seal).toMatchObject({ activityId: 'a1', version: 'v1', epoch: 7, records: 5 })
    expect(new Set(seals.kept.values())).toEqual(new Set(five()))
    expect(seals.seal?.checksum).toBe(checksumOf(inOrder(seals)))
    expect(await seal(new Stock(), seals)).toMatchObject({ status: 'sealed', fresh: false })
  })

  it.each([
    ['open', { state: 'open' as const }],
    ['undecided', { waiting: 1 }],
    ['not-warmed', { status: 'not-warmed' as const }],
    ['rewound', { status: 'rewound' as const }],
    ['corrupt', { status: 'corrupt' as const }],
  ])('%s: nothing is copied', async (status, standing) => {
    const stock = new Stock(...five())
    stock.standing_ = standing
    const seals = new MemorySeals()
    expect(await seal(stock, seals)).toEqual({ status })
    expect(seals.kept.size).toBe(0)
  })

  it('what changed, came or went after the copy is put right, and sealed as it is then', async () => {
    const stock = new Stock(...five())
    stock.before['reservations 1'] = () => {
      stock.set(record('1', { state: 'released' }))
      stock.records.delete('2')
    }
    const seals = new MemorySeals()
    expect(await seal(stock, seals)).toMatchObject({ status: 'sealed', seal: { records: 4 } })
    expect(seals.kept.get('1')?.state).toBe('released')
    expect(seals.kept.has('2')).toBe(false)
    expect(seals.seal?.checksum).toBe(checksumOf(inOrder(seals)))
  })

  it('a number that is a tombstone only, without quantity, is no record', async () => {
    const stock = new Stock(...five())
    const { standing } = stock
    stock.standing = async () => ({ ...(await standing.call(stock)), records: { s1: 3, s2: 1 } })
    stock.before['reservations 1'] = () =>
      stock.set(record('1', { state: 'released', quantity: 0 }))
    const seals = new MemorySeals()
    expect(await seal(stock, seals)).toMatchObject({ status: 'sealed', seal: { records: 4 } })
    expect(seals.kept.has('1')).toBe(false)
  })

  it.each<[string, (stock: Stock) => void]>([
    [
      'a record that no page had',
      (s) => {
        s.before['standing 2'] = () => s.set(record('9'))
      },
    ],
    [
      'another epoch',
      (s) => {
        s.before['standing 2'] = () => {
          s.standing_ = { epoch: 8 }
        }
      },
    ],
    [
      'a batch more',
      (s) => {
        s.before['standing 2'] = () => {
          s.standing_ = { seq: 4 }
        }
      },
    ],
    [
      'a Redis that is lost',
      (s) => {
        s.before['standing 2'] = () => {
          s.standing_ = { status: 'not-warmed' }
        }
      },
    ],
    [
      'keys that are gone while they are compared',
      (s) => {
        s.before['reservations 1'] = () => {
          s.lost = true
        }
      },
    ],
    [
      'records that never come to rest',
      (s) => {
        let at = 0
        for (let i = 1; i <= 9; i++)
          s.before[`reservations ${i}`] = () =>
            s.set(record('1', { reservedAt: 1_790_000_000_000 + ++at }))
      },
    ],
  ])('%s: changed, and nothing is sealed', async (_, happens) => {
    const stock = new Stock(...five())
    happens(stock)
    const seals = new MemorySeals()
    expect(await seal(stock, seals)).toEqual({ status: 'changed' })
    expect(seals.seal).toBeNull()
  })

  it('another who sealed meanwhile is heard, and his seal is told', async () => {
    const stock = new Stock(...five())
    const seals = new MemorySeals()
    const other = {
      ...{ activityId: 'a1', version: 'v1', epoch: 7, records: 1 },
      checksum: 'x',
      sealedAt: 1,
    }
    stock.before['standing 2'] = () => expect.unreachable('it was sealed already')
    stock.before['reservations 1'] = () => {
      seals.seal = other
    }
    expect(await seal(stock, seals)).toEqual({ status: 'sealed', seal: other, fresh: false })
    const copying = new Stock(...five())
    const early = new MemorySeals()
    copying.before['scan 1'] = () => {
      early.seal = other
    }
    copying.before['scan 3'] = () => expect.unreachable('it was sealed already')
    expect(await seal(copying, early)).toEqual({ status: 'sealed', seal: other, fresh: false })
  })

  it('what another run changes between the reading and the seal is read again, and sealed as it is then', async () => {
    const stock = new Stock(...five())
    const seals = new MemorySeals()
    stock.before['standing 2'] = () => {
      stock.set(record('1', { state: 'released' }))
      void seals.put(null, [record('1', { state: 'released' })])
    }
    expect(await seal(stock, seals)).toMatchObject({ status: 'sealed', fresh: true })
    expect(seals.kept.get('1')?.state).toBe('released')
    expect(seals.seal?.checksum).toBe(checksumOf(inOrder(seals)))
  })

  it('another run that never leaves the records alone: changed, and nothing is sealed', async () => {
    const stock = new Stock(...five())
    const seals = new MemorySeals()
    for (let i = 2; i <= 9; i++)
      stock.before[`standing ${i}`] = () => {
        void seals.put(null, [record('1', { quantity: i })])
        void seals.put(null, [record('1')])
      }
    expect(await seal(stock, seals)).toEqual({ status: 'changed' })
    expect(seals.seal).toBeNull()
  })

  it('a record that cannot be read, an unknown activity and a strong one are errors', async () => {
    const stock = new Stock(...five())
    stock.strange = ['u7']
    await expect(seal(stock)).rejects.toMatchObject({ code: 'CORRUPT' })
    for (const load of [async () => null, async () => ({ ...activity, mode: 'strong' as const })])
      await expect(seal(new Stock(), new MemorySeals(), { load })).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
  })

  it.each(['scan 2', 'reservations 1'])('ends at %s when told to', async (at) => {
    const stop = new AbortController()
    const stock = new Stock(...five())
    stock.before[at] = () => stop.abort()
    const after = at === 'scan 2' ? 'scan 3' : 'reservations 2'
    stock.before[after] = () => expect.unreachable('too late')
    const seals = new MemorySeals()
    await expect(seal(stock, seals, { signal: stop.signal })).rejects.toThrow(/abort/i)
    expect(seals.seal).toBeNull()
  })
})

describe('KnexSealStore', () => {
  let database: FreshDatabase
  let seals: KnexSealStore
  beforeAll(async () => {
    database = await freshDatabase('sqlite')
    await KnexOrderBook.migrate(database.knex)
    seals = new KnexSealStore({ knex: database.knex })
  })
  afterAll(() => database.destroy())

  const ref = { activityId: 'a1', skuId: 's1' }
  const all = async (skuId = 's1') => {
    const found: SealedRecord[] = []
    for await (const r of seals.records({ activityId: 'a1', skuId })) found.push(r)
    return found
  }
  const bare = ({ orderNo, state, quantity }: SealedRecord) => `${orderNo} ${state} ${quantity}`

  it('keeps, changes and drops records, of the SKU that is named alone, in order of number', async () => {
    const twice = [record('2'), record('2', { state: 'confirmed' }), record('1')]
    expect(await seals.put(ref, twice)).toBe(true)
    expect((await all()).map(bare)).toEqual(['1 paid 1', '2 confirmed 1'])
    await seals.put(ref, [record('2', { state: 'released', quantity: 3 }), record('3')])
    await seals.put({ ...ref, skuId: 's2' }, [record('3', { skuId: 's2' })])
    expect((await all()).map(bare)).toEqual(['1 paid 1', '2 released 3', '3 paid 1'])
    await seals.put(ref, [record('3', { state: 'confirmed' })])
    expect(await seals.drop(ref, ['3', 'none'])).toBe(true)
    expect((await all()).map(bare)).toEqual(['1 paid 1', '2 released 3'])
    expect(await all('s2')).toEqual([record('3', { skuId: 's2' })])
    expect(await seals.put(ref, [])).toBe(true)
  })

  it('tells exactly a page, and more than a page, each record once', async () => {
    await seals.put(ref, [record('1'), record('2')])
    const many = Array.from({ length: 999 }, (_, i) => record(`9${String(i).padStart(4, '0')}`))
    await seals.put(ref, many.slice(0, 998))
    expect(await all()).toHaveLength(1_000)
    await seals.put(ref, many.slice(998))
    const found = (await all()).map((r) => r.orderNo)
    expect(found).toHaveLength(1_001)
    expect(new Set(found).size).toBe(1_001)
    await expect(seals.put(ref, [...many, record('1'), record('2')])).rejects.toMatchObject({
      code: 'BAD_INPUT',
    })
  })

  const of = { activityId: 'a1', version: 'v1', epoch: 7, records: 2, checksum: 'f'.repeat(64) }

  it('the generation rises with what changes, with that alone, for each activity apart', async () => {
    const a2 = { activityId: 'a2', skuId: 's1' }
    const seen = [await seals.generation('a2')]
    const telling = async (change: Promise<boolean>) => {
      expect(await change).toBe(true)
      seen.push(await seals.generation('a2'))
    }
    await telling(seals.put(a2, []))
    await telling(seals.drop(a2, ['1']))
    expect(seen).toEqual([0, 0, 0])
    await telling(seals.put(a2, [record('1'), record('2')]))
    await telling(seals.put(a2, [record('1'), record('2')]))
    await telling(seals.put({ ...a2, skuId: 's2' }, [record('1', { skuId: 's2' })]))
    await telling(seals.put(a2, [record('1', { state: 'released' })]))
    await telling(seals.drop(a2, ['1', 'none']))
    await telling(seals.drop(a2, ['1', 'none']))
    expect(seen.slice(3)).toEqual([1, 1, 2, 3, 4, 4])
    const other = { ...of, activityId: 'a3', records: 0 }
    expect(await seals.finish({ ...other, generation: 1 })).toBeNull()
    expect(await seals.finish({ ...other, generation: 0 })).toMatchObject(other)
  })

  it('no seal of records that have changed since they were read', async () => {
    const generation = await seals.generation('a1')
    await seals.put(ref, [record('1', { state: 'released' })])
    expect(await seals.finish({ ...of, generation })).toBeNull()
    expect(await seals.find('a1')).toBeNull()
    await seals.drop(ref, ['1'])
    expect(await seals.finish({ ...of, generation: generation + 1 })).toBeNull()
    await expect(seals.finish(of as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })

  it('one seal, the first; nothing is changed behind it', async () => {
    const generation = await seals.generation('a1')
    expect(await seals.find('a1')).toBeNull()
    const first = await seals.finish({ ...of, generation })
    expect(first).toEqual({ ...of, sealedAt: expect.any(Number) })
    expect(await seals.finish({ ...of, records: 3, generation: 0 })).toEqual(first)
    expect(await seals.find('a1')).toEqual(first)
    const before = await all()
    expect(await seals.put(ref, [record('1', { state: 'held' })])).toBe(false)
    expect(await seals.drop(ref, ['1'])).toBe(false)
    expect(await all()).toEqual(before)
  })
})
