import { expect, test } from 'vitest'
import { openDatabase } from '../../harness/databases.js'
import { until } from '../../harness/net.js'
import { diary, gate, makeKit, newId, type SagaKit } from './kit.js'

export function holdingTests(kit: SagaKit): void {
  test('C09 (e): the lease is lost in mid-step: another takes over, the first is told and changes nothing', async () => {
    const { lines, step } = diary()
    const begun = gate()
    const end = gate()
    let signal: AbortSignal | undefined
    const first = kit.runner(
      [
        step('a', {
          do: async (_, context) => {
            signal = context.signal
            begun.open()
            await end.opened
            return { status: 'done', data: { seen: ['by the first'] } }
          },
        }),
        step('b'),
      ],
      { leaseMs: 300, concurrency: 1 }, // so that it does not take its own saga, overdue, a second time
    )
    const id = await first.begin()
    const running = first.saga.run()
    await begun.opened
    const second = kit.runner(
      [
        step('a', {
          do: async (_, { fence, attempt }) => ({
            status: 'done',
            data: { seen: ['by the second', String(fence), String(attempt)] },
          }),
        }),
        step('b'),
      ],
      { kind: first.kind },
    )
    await until('another has it', async () => {
      await second.again()
      return (await second.saga.find(id))?.status === 'done'
    })
    await until('the first is told', () => signal?.aborted === true)
    end.open()
    await running
    const now = await second.saga.find(id)
    expect(now).toMatchObject({ status: 'done', data: { seen: ['by the second', '2', '2'] } })
    expect(lines).toEqual(['do b'])
    expect(first.alerts).toContainEqual({
      code: 'saga-lease-lost',
      sagaId: id,
      kind: first.kind,
      step: 'a',
    })
  })

  test('C09 (e): every write of a late former holder is refused', async () => {
    const { step } = diary()
    const { kind, begin } = kit.runner([step('a')])
    const id = await begin()
    const take = async () => (await kit.store.take({ kind, limit: 1, leaseMs: 60_000 }))[0]
    const former = await take()
    if (!former) throw new Error('nothing was due')
    expect(await take()).toBeUndefined()
    await kit.ripen(kind)
    const latter = await take()
    expect(latter?.fence).toBe(former.fence + 1)
    const before = await kit.row(id)
    expect(await kit.store.renew(former, 1)).toBe(false)
    for (const state of ['active', 'ended', 'parked'] as const)
      expect(await kit.store.save(former, { ...former, state, data: '{}', waitMs: 0 })).toBe(false)
    expect(await kit.row(id)).toEqual(before)
    expect(await kit.tasks(id)).toEqual([])
  })

  test('P3: a step that outlives its lease keeps it', async () => {
    const { lines, step } = diary()
    const begun = gate()
    const end = gate()
    const { saga, kind, begin, alerts } = kit.runner(
      [
        step('a', {
          do: async () => {
            begun.open()
            await end.opened
            lines.push('do a')
          },
        }),
      ],
      { leaseMs: 3_000 },
    )
    const id = await begin()
    const running = saga.run()
    await begun.opened
    const { nextAt } = (await saga.find(id)) ?? { nextAt: 0 }
    const second = kit.runner([step('a')], { kind })
    await until('it is renewed', async () => {
      await second.saga.run()
      return ((await saga.find(id))?.nextAt ?? 0) > nextAt
    })
    end.open()
    await running
    expect(lines).toEqual(['do a'])
    expect(await saga.find(id)).toMatchObject({ status: 'done', tries: 1 })
    expect(alerts).toEqual([])
  })

  // SQLite has one connection, and a write of its file costs milliseconds.
  const sagas = kit.kind === 'sqlite' ? 20 : 200
  test(`P3: two workers, ${sagas} sagas: each step has its effect once`, async () => {
    const { kind, knex, address } = kit.db
    const otherPool = kind === 'sqlite' ? null : openDatabase(address)
    const other = makeKit({ ...kit.db, knex: otherPool ?? knex })
    try {
      const effects: string[] = []
      const step = (name: string, refuses = false) => ({
        name,
        do: async ({ amount }: { amount: number }, { key }: { key: string }) => {
          await new Promise(setImmediate)
          if (refuses && amount % 4 === 0) return { status: 'failed', reason: 'no' } as const
          effects.push(`do ${key}`)
          return undefined
        },
        undo: async (_: unknown, { key }: { key: string }) => void effects.push(`undo ${key}`),
      })
      const steps = [step('a'), step('b'), step('c', true)]
      const one = kit.runner(steps, { concurrency: 20 })
      const twin = other.runner(steps, { kind: one.kind })
      const ids = Array.from({ length: sagas }, newId)
      await kit.knex.transaction(async (trx) => {
        for (const [amount, id] of ids.entries())
          await one.saga.begin(trx, { id, data: { amount } })
      })
      const warnings: unknown[] = []
      const warned = (warning: Error) => void warnings.push(warning.message)
      process.on('warning', warned)
      await Promise.all([one.saga.run(), twin.saga.run()])
      process.off('warning', warned)
      expect(warnings).toEqual([])
      const rest = await kit.knex('seckill_saga').where({ kind: one.kind })
      expect(rest.every((row) => row.state === 'ended')).toBe(true)
      expect(new Set(effects).size).toBe(effects.length)
      // Three of four are done in three steps; the others did two, and undid both.
      expect(effects).toHaveLength((sagas / 4) * (3 * 3 + 4))
      expect([...one.alerts, ...twin.alerts].filter((a) => a['kind'] === one.kind)).toEqual([])
    } finally {
      await otherPool?.destroy()
    }
  })

  test('P3: stop lets the step that runs end, stores it, and begins no other', async () => {
    const { lines, step } = diary()
    const begun = gate()
    const end = gate()
    let signal: AbortSignal | undefined
    const { saga, kind, begin } = kit.runner(
      [
        step('a', {
          do: async (_, context) => {
            signal = context.signal
            begun.open()
            await end.opened
            lines.push('do a')
          },
        }),
        step('b'),
      ],
      { concurrency: 1 },
    )
    const id = await begin()
    const second = await begin()
    await saga.start()
    await saga.start()
    await begun.opened
    const stopped = Promise.all([saga.stop({ drainMs: 30_000 }), saga.stop({ drainMs: 30_000 })])
    expect(signal?.aborted).toBe(false)
    end.open()
    await stopped
    expect(lines).toEqual(['do a'])
    expect(await saga.find(id)).toMatchObject({ status: 'running', step: 'b', tries: 0 })
    expect(await saga.find(second)).toMatchObject({ status: 'running', step: 'a', tries: 0 })
    await expect(saga.start()).rejects.toMatchObject({ code: 'STOPPED' })

    await using next = kit.runner([step('a'), step('b')], { kind }).saga
    await next.start()
    await until('the next process ends them', async () => {
      const found = [await next.find(id), await next.find(second)]
      return found.every((saga) => saga?.status === 'done')
    })
    expect(lines.sort()).toEqual(['do a', 'do a', 'do b', 'do b'])
  })

  test('P3: a stop that waits no longer aborts the signal of the step', async () => {
    const { step } = diary()
    const begun = gate()
    const { saga, begin } = kit.runner([
      step('a', {
        do: (_, { signal }) => {
          begun.open()
          return new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
          })
        },
      }),
    ])
    const id = await begin()
    await saga.start()
    await begun.opened
    await saga.stop({ drainMs: 1 })
    await until('the outcome is stored', async () => (await saga.find(id))?.lastError !== null)
    expect(await saga.find(id)).toMatchObject({ status: 'running', step: 'a', tries: 1 })
  })
}
