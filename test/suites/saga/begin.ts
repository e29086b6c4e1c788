import { expect, test } from 'vitest'
import { diary, newId, type SagaKit } from './kit.js'

export function beginTests(kit: SagaKit): void {
  test('P3: begins with the transaction that commits, and is nothing if it rolls back', async () => {
    const { lines, step } = diary()
    const { saga } = kit.runner([step('a')])
    const [kept, undone] = [newId(), newId()]
    await kit.knex.transaction((trx) => saga.begin(trx, { id: kept, data: { amount: 1 } }))
    const rolledBack = kit.knex.transaction(async (trx) => {
      await saga.begin(trx, { id: undone, data: { amount: 1 } })
      throw new Error('the host changed its mind')
    })
    await expect(rolledBack).rejects.toThrow('the host changed its mind')
    expect(await saga.find(kept)).toMatchObject({ status: 'running', step: 'a', tries: 0 })
    expect(await saga.find(undone)).toBeNull()
    await saga.run()
    expect(lines).toEqual(['do a'])
  })

  test('P3: no runner sees it before the commit', async () => {
    if (kit.kind === 'sqlite') return // its pool has one connection
    const { lines, step } = diary()
    const { saga } = kit.runner([step('a')])
    await kit.knex.transaction(async (trx) => {
      await saga.begin(trx, { id: newId(), data: { amount: 1 } })
      await saga.run()
      expect(lines).toEqual([])
    })
    await saga.run()
    expect(lines).toEqual(['do a'])
  })

  test('P3: the same id with equal data is the same saga, also after it has gone on', async () => {
    const { step } = diary()
    const { saga } = kit.runner([
      step('a', { do: async () => ({ status: 'done', data: { seen: ['a'] } }) }),
    ])
    const id = newId()
    const begin = (data: object) =>
      kit.knex.transaction((trx) => saga.begin(trx, { id, data: data as { amount: number } }))
    expect(await begin({ amount: 1, seen: ['x'] })).toBe(true)
    expect(await begin({ seen: ['x'], amount: 1 })).toBe(false)
    await saga.run()
    expect(await begin({ amount: 1, seen: ['x'] })).toBe(false)
    expect(await saga.find(id)).toMatchObject({ status: 'done', data: { amount: 1, seen: ['a'] } })
  })

  test('P3: the id of another saga is refused, and the transaction stays usable', async () => {
    const { step } = diary()
    const { saga } = kit.runner([step('a')])
    const other = kit.runner([step('a')])
    const [id, next] = [newId(), newId()]
    await kit.knex.transaction(async (trx) => {
      await saga.begin(trx, { id, data: { amount: 1 } })
      for (const wrong of [
        saga.begin(trx, { id, data: { amount: 2 } }),
        other.saga.begin(trx, { id, data: { amount: 1 } }),
      ])
        await expect(wrong).rejects.toMatchObject({ code: 'BAD_INPUT' })
      await saga.begin(trx, { id: next, data: { amount: 3 } })
    })
    expect(await saga.find(id)).toMatchObject({ data: { amount: 1 } })
    expect(await saga.find(next)).toMatchObject({ data: { amount: 3 } })
    expect(await other.saga.find(id)).toBeNull()
  })

  test('P3: two transactions begin the same saga at once: one begins it, both commit', async () => {
    const { lines, step } = diary()
    const { saga } = kit.runner([step('a')])
    const id = newId()
    const begin = () =>
      kit.knex.transaction(async (trx) => {
        const fresh = await saga.begin(trx, { id, data: { amount: 1 } })
        await trx.raw('SELECT 1')
        return fresh
      })
    const begun = await Promise.all([begin(), begin(), begin()])
    expect(begun.filter(Boolean)).toHaveLength(1)
    await saga.run()
    expect(lines).toEqual(['do a'])
  })

  test('P3: a transaction whose snapshot is older than the saga finds it all the same', async () => {
    if (kit.kind === 'sqlite') return // its pool has one connection
    const { step } = diary()
    const { saga } = kit.runner([step('a')])
    const id = newId()
    await kit.knex.transaction(async (trx) => {
      await trx('seckill_saga').where({ saga_id: id })
      await kit.knex.transaction((first) => saga.begin(first, { id, data: { amount: 1 } }))
      expect(await saga.begin(trx, { id, data: { amount: 1 } })).toBe(false)
    })
  })

  test('P3: where a snapshot forbids to see it, the transaction is to be repeated', async () => {
    if (kit.kind !== 'postgres') return // MySQL reads past its snapshot, SQLite has one connection
    const { saga } = kit.runner([diary().step('a')])
    const id = newId()
    const data = { amount: 1 }
    const begun = kit.knex.transaction(
      async (trx) => {
        await trx('seckill_saga').where({ saga_id: id })
        await kit.knex.transaction((first) => saga.begin(first, { id, data }))
        return saga.begin(trx, { id, data })
      },
      { isolationLevel: 'repeatable read' },
    )
    await expect(begun).rejects.toMatchObject({ code: 'DB_BUSY' })
  })

  test('P3: without an open transaction nothing is written', async () => {
    const { step } = diary()
    const { saga } = kit.runner([step('a')])
    const id = newId()
    const ended = await kit.knex.transaction()
    await ended.rollback()
    for (const trx of [ended, kit.knex, null, 7])
      await expect(saga.begin(trx as never, { id, data: { amount: 1 } })).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    expect(await saga.find(id)).toBeNull()
  })
}
