import { expect, it } from 'vitest'
import type { Batch, Delivered, Reservation } from '../../../src/core/types.js'
import type { OwedBatch } from '../../../src/stock/owed.js'
import type { StockBucket } from '../../../src/stock/stock-bucket.js'
import { doneKey, KEYS, REF, sku, type World } from './world.js'

const LEASE = { leaseMs: 60_000, limit: 100 }
const reserved = (status: string) => status === 'reserved'

export function owedTests(world: () => World): void {
  /** A sale with batches of one; the numbers are `o<user>`. */
  async function batches(count: number, p: object = {}): Promise<StockBucket> {
    const w = world()
    const stock = await w.sale({ skus: [sku(10)] }, { maxBatch: 1, ...p })
    for (let i = 1; i <= count; i++)
      expect(await stock.deduct(w.request(`u${i}`, { orderNo: `o${i}` }))).toMatchObject({
        status: 'reserved',
      })
    return stock
  }
  /** Makes a member due now, as time would. */
  const due = (member: string) => world().redis.zadd(KEYS.owed, '1', member)
  const batchIds = async () =>
    Object.keys(await world().redis.hgetall(KEYS.batch)).filter((id) => !id.startsWith(' '))
  const numbersOf = (owed: readonly OwedBatch[]) =>
    owed.map((o) => [o.due, ...o.batch.reservations.map((r) => r.orderNo)])

  it('Q1 a batch nobody reported is due after its deadline, to one relay at a time', async () => {
    const w = world()
    const stock = await batches(2)
    expect(await stock.takeOwed('a1', LEASE)).toEqual([])
    const [first] = w.batches
    await due(first?.batchId as string)
    const [a, b] = await Promise.all([stock.takeOwed('a1', LEASE), stock.takeOwed('a1', LEASE)])
    expect([...a, ...b]).toMatchObject([{ due: 'send', batch: first }])
    const bornAt = (a[0] ?? b[0])?.bornAt ?? 0
    expect(Math.abs(bornAt - Date.now())).toBeLessThan(5_000)
    await due(first?.batchId as string) // the lease is over
    expect(await stock.takeOwed('a1', LEASE)).toMatchObject([{ due: 'send', batch: first }])
    await w.sound()
  })

  it('takes at most `limit`, oldest first', async () => {
    const stock = await batches(3)
    const ids = world().batches.map((b) => b.batchId)
    for (const [i, id] of ids.entries()) await world().redis.zadd(KEYS.owed, String(i + 1), id)
    expect(numbersOf(await stock.takeOwed('a1', { ...LEASE, limit: 2 }))).toEqual([
      ['send', 'o1'],
      ['send', 'o2'],
    ])
    expect(numbersOf(await stock.takeOwed('a1', { ...LEASE, limit: 2 }))).toEqual([['send', 'o3']])
  })

  it('accepted is no longer owed, and due to be closed when nobody confirms it for closeAfterMs', async () => {
    const w = world()
    const stock = await batches(1, { closeAfterMs: 600_000 })
    const [batch] = w.batches as [Batch]
    await stock.delivered(batch, 'accepted')
    const { redis } = w
    const member = `${batch.batchId} accepted`
    expect(await redis.zscore(KEYS.owed, batch.batchId)).toBeNull()
    const score = Number(await redis.zscore(KEYS.owed, member))
    expect(Math.abs(score - Date.now() - 600_000)).toBeLessThan(5_000)
    await w.unchanged(() => stock.delivered(batch, 'accepted'))
    expect(await stock.takeOwed('a1', LEASE)).toEqual([])
    await due(member)
    expect(numbersOf(await stock.takeOwed('a1', LEASE))).toEqual([['close', 'o1']])
    await w.sound()
  })

  it('what was never accepted is due to be closed too, once it is that old', async () => {
    const stock = await batches(1)
    const [id] = await batchIds()
    await world().redis.hset(KEYS.batch, ` ${id}`, String(Date.now() - 700_000))
    await due(id as string)
    expect(numbersOf(await stock.takeOwed('a1', LEASE))).toEqual([['close', 'o1']])
  })

  it('settled is gone, and a late "accepted" does not bring it back', async () => {
    const w = world()
    const stock = await batches(1)
    const [batch] = w.batches as [Batch]
    await stock.move(batch.reservations.map((reservation) => ({ to: 'confirmed', reservation })))
    await stock.delivered(batch, 'settled')
    expect((await stock.numbers(REF)).owed).toBe(0)
    expect(await batchIds()).toEqual([])
    expect(Object.keys(await w.redis.hgetall(KEYS.batch))).toEqual([' '])
    for (const late of ['accepted', 'settled', 'unknown'] as const)
      await w.unchanged(() => stock.delivered(batch, late))
    await w.sound()
  })

  it('only what is still held is due; a batch with nothing held is settled on the way', async () => {
    const w = world()
    const stock = await w.sale()
    const answers = await Promise.all(
      ['u1', 'u2', 'u3'].map((u) => stock.deduct(w.request(u, { orderNo: `o${u}` }))),
    )
    const [a, b, c] = answers.map((x) => (x.status === 'reserved' ? x.reservation : null)) as [
      Reservation,
      Reservation,
      Reservation,
    ]
    const [id] = await batchIds()
    await stock.move([{ to: 'confirmed', reservation: a }])
    await stock.move([{ to: 'released', reservation: b, reason: 'unpaid' }])
    await due(id as string)
    expect(numbersOf(await stock.takeOwed('a1', LEASE))).toEqual([['send', 'ou3']])
    await stock.move([{ to: 'paid', reservation: c }])
    await due(id as string)
    expect(await stock.takeOwed('a1', LEASE)).toEqual([])
    expect(await batchIds()).toEqual([])
    expect((await stock.numbers(REF)).owed).toBe(0)
    await w.sound()
  })

  it('losers of a batch are in its stored message and are never due', async () => {
    const w = world()
    const stock = await w.sale({ skus: [sku(1)] })
    const all = await Promise.all(['u1', 'u2', 'u3'].map((u) => stock.deduct(w.request(u))))
    expect(all.map((a) => a.status)).toEqual(['reserved', 'sold-out', 'sold-out'])
    await due((await batchIds())[0] as string)
    const [owed] = await stock.takeOwed('a1', LEASE)
    expect(owed?.batch.reservations.map((r) => r.userId)).toEqual(['u1'])
  })

  it('a message that cannot be read is reported, stays owed, and holds up nobody', async () => {
    const w = world()
    const heard: unknown[] = []
    const stock = await batches(4, { onError: (error: unknown) => heard.push(error) })
    const [one, two, three, four] = w.batches.map((b) => b.batchId) as [
      string,
      string,
      string,
      string,
    ]
    await w.redis.hset(KEYS.batch, one, '{"schema":1,')
    await w.redis.hset(KEYS.batch, two, (await w.redis.hget(KEYS.batch, three)) as string)
    await w.redis.hdel(KEYS.batch, four)
    for (const [i, id] of [one, two, three, four].entries())
      await w.redis.zadd(KEYS.owed, String(i + 1), id)
    expect(numbersOf(await stock.takeOwed('a1', LEASE))).toEqual([['send', 'o3']])
    expect(heard).toMatchObject([
      { code: 'BAD_MESSAGE', message: expect.stringContaining(one) },
      { code: 'CORRUPT', message: expect.stringContaining(two) },
      { code: 'CORRUPT', message: expect.stringContaining(four) },
    ])
    expect(await w.redis.hget(KEYS.batch, one)).toBe('{"schema":1,')
    for (const id of [one, two, three])
      expect(Number(await w.redis.zscore(KEYS.owed, id))).toBeGreaterThan(Date.now())
    // Without its message a batch can never be sent: it was reported, and is not claimed for ever.
    expect(await w.redis.zscore(KEYS.owed, four)).toBeNull()
  })

  it('a record that cannot be read is reported, and its batch goes on without it', async () => {
    const w = world()
    const heard: unknown[] = []
    const stock = await w.sale({}, { onError: (error) => heard.push(error) })
    await Promise.all(
      ['u1', 'u2', 'u3'].map((u) => stock.deduct(w.request(u, { orderNo: `o${u}` }))),
    )
    for (const junk of ['junk', 'h|a b|1|1|', 'two words and\nlines', '']) {
      await w.redis.hset(doneKey('s1'), 'u2', junk)
      await due((await batchIds())[0] as string)
      heard.length = 0
      expect(numbersOf(await stock.takeOwed('a1', LEASE)), junk).toEqual([['send', 'ou1', 'ou3']])
      expect(heard, junk).toMatchObject([{ code: 'CORRUPT' }])
    }
    // Nor is the batch struck off while one of its records cannot be read.
    await w.redis.hset(doneKey('s1'), 'u1', 'junk')
    await w.redis.hset(doneKey('s1'), 'u3', 'junk')
    await due((await batchIds())[0] as string)
    expect(await stock.takeOwed('a1', LEASE)).toEqual([])
    expect(await batchIds()).toHaveLength(1)
  })

  it('a callback that throws does not disturb the relay', async () => {
    const stock = await batches(1, {
      onError: () => {
        throw new Error('the pager is down')
      },
    })
    const [id] = await batchIds()
    await world().redis.hset(KEYS.batch, id as string, 'junk')
    await due(id as string)
    expect(await stock.takeOwed('a1', LEASE)).toEqual([])
  })

  async function withOutcome(outcome: unknown, p: object = {}) {
    const w = world()
    const stock = await w.sale(
      {},
      {
        deliver: (async (batch: Batch) => {
          w.batches.push(batch)
          if (outcome instanceof Error) throw outcome
          return outcome as Delivered
        }) as never,
        ...p,
      },
    )
    const asked = ['u1', 'u2'].map((u) => stock.deduct(w.request(u, { orderNo: `o${u}` })))
    const answers = await Promise.all(asked)
    await stock.stop()
    return { w, stock, told: answers.map((a) => a.status) }
  }

  it('a queue that accepts: reserved, and the batch is watched', async () => {
    const { w, stock, told } = await withOutcome('accepted')
    expect(told.every(reserved)).toBe(true)
    const members = await w.redis.zrange(KEYS.owed, 0, -1)
    expect(members).toEqual(expect.arrayContaining([`${w.batches[0]?.batchId} accepted`]))
    expect((await stock.numbers(REF)).owed).toBe(1)
    await w.sound()
  })

  it('a settled delivery: reserved, and nothing is left to watch', async () => {
    const { w, stock, told } = await withOutcome('settled')
    expect(told.every(reserved)).toBe(true)
    expect((await stock.numbers(REF)).owed).toBe(0)
    await w.sound({ watched: false })
  })

  it.each([
    ['unknown', 'unknown'],
    ['a throw', new Error('broker away')],
    ['nothing', undefined],
    ['null', null],
    ['another word', 'sent'],
    ['true', true],
    ['closed without numbers', { closed: undefined }],
    ['closed with what is none', { closed: 5 }],
    ['closed with a number that is none', { closed: [{}] }],
  ])('a delivery that says %s stays owed, and the buyers keep their units', async (_, outcome) => {
    const { w, stock, told } = await withOutcome(outcome)
    expect(told.every(reserved)).toBe(true)
    expect(await stock.numbers(REF)).toMatchObject({ owed: 1, frozen: 2 })
    await due(w.batches[0]?.batchId as string)
    expect(numbersOf(await stock.takeOwed('a1', LEASE))).toEqual([['send', 'ou1', 'ou2']])
    await w.sound()
  })

  it('a rejected send whose rows are closed: "try again" and the units back, for those only', async () => {
    const { w, stock, told } = await withOutcome({ closed: ['ou2', 'of-nobody'] })
    expect(told).toEqual(['reserved', 'try-again'])
    expect(await stock.numbers(REF)).toMatchObject({ available: 9, frozen: 1, owed: 0 })
    expect(await stock.reservation(REF, 'u2')).toMatchObject({
      state: 'released',
      reason: 'send-rejected',
    })
    await w.sound({ watched: false })
  })

  it('a delivery that hangs: reserved after its deadline, and its signal is aborted', async () => {
    const w = world()
    let signal: AbortSignal | undefined
    const stock = await w.sale(
      {},
      {
        deliverTimeoutMs: 40,
        deliver: (_, s) => {
          signal = s
          return new Promise(() => {})
        },
      },
    )
    const started = performance.now()
    expect(await stock.deduct(w.request('u1'))).toMatchObject({ status: 'reserved' })
    expect(performance.now() - started).toBeLessThan(1_000)
    expect(signal?.aborted).toBe(true)
    expect((await stock.numbers(REF)).owed).toBe(1)
    await stock.stop({ drainMs: 500 })
    await w.sound()
  })

  it('losers do not wait for the delivery of the winners', async () => {
    const w = world()
    let send = (_: Delivered) => {}
    const stock = await w.sale(
      { skus: [sku(1)] },
      {
        deliver: () =>
          new Promise((resolve) => {
            send = resolve
          }),
      },
    )
    const winner = stock.deduct(w.request('u1'))
    expect(await stock.deduct(w.request('u2'))).toEqual({ status: 'sold-out' })
    send('accepted')
    expect(await winner).toMatchObject({ status: 'reserved' })
  })
}
