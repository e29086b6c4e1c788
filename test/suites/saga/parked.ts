import { expect, test } from 'vitest'
import { AUDIT, broken, diary, refused, type SagaKit } from './kit.js'

export function parkedTests(kit: SagaKit): void {
  test('P3: after 10 tries it is parked, with a manual task and an alert, and nobody takes it', async () => {
    const { lines, step } = diary()
    const { saga, kind, alerts, begin, again } = kit.runner([
      step('a', {
        undo: async () => {
          lines.push('undo a')
          throw new Error('away')
        },
      }),
      step('b', { do: refused('no') }),
    ])
    const id = await begin()
    await saga.run()
    for (let i = 2; i <= 10; i++) await again()
    expect(lines.filter((line) => line === 'undo a')).toHaveLength(10)
    expect(await saga.find(id)).toMatchObject({
      status: 'parked',
      step: 'a',
      tries: 10,
      reason: 'no',
    })
    expect(alerts).toEqual([
      { code: 'saga-parked', sagaId: id, kind, step: 'a', error: 'Error: away' },
    ])
    const [task, ...more] = await kit.tasks(id)
    expect(more).toEqual([])
    expect(task).toMatchObject({ resolved_at: null })
    expect(JSON.parse(task?.['detail'] as string)).toEqual({
      sagaId: id,
      kind,
      state: 'parked',
      direction: 'undo',
      step: 'a',
      tries: 10,
      reason: 'no',
      lastError: 'Error: away',
    })
    await kit.knex('seckill_saga').where({ saga_id: id }).update({ next_time: 0 })
    await saga.run()
    expect(lines.filter((line) => line === 'undo a')).toHaveLength(10)
    expect((await saga.parked({ limit: 10 })).map(({ sagaId }) => sagaId)).toEqual([id])
  })

  test('P3: resumed by a person it goes on; his act is audited, the task resolved, and open again if it fails again', async () => {
    const { step } = diary()
    let away = true
    const { saga, begin, again } = kit.runner(
      [
        step('a', {
          do: async () => {
            if (away) throw new Error('away')
          },
        }),
      ],
      { maxTries: 2 },
    )
    const id = await begin()
    await saga.run()
    await again()
    expect(await saga.find(id)).toMatchObject({ status: 'parked' })

    expect(await saga.resume(id, AUDIT)).toBe(true)
    expect(await saga.find(id)).toMatchObject({ status: 'running', step: 'a' })
    expect(await kit.tasks(id)).toMatchObject([{ resolved_by: 'op', resolution: 'a test' }])
    const audits = await kit.knex('seckill_audit').where({ act: 'resume-saga' })
    const mine = audits.filter((row) => JSON.parse(row.before_value).sagaId === id)
    expect(mine).toMatchObject([{ actor: 'op', reason: 'a test', activity_id: null }])
    expect(JSON.parse(mine[0].after_value)).toMatchObject({ state: 'active', step: 'a' })

    await again()
    expect(await saga.find(id)).toMatchObject({ status: 'parked' })
    expect(await kit.tasks(id)).toMatchObject([{ resolved_at: null, resolved_by: null }])
    away = false
    expect(await saga.resume(id, AUDIT)).toBe(true)
    await again()
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
    expect(await saga.resume(id, AUDIT)).toBe(false)
    expect(await saga.resume('nobody', AUDIT)).toBe(false)
  })

  test('P3: two persons resume at once: one does', async () => {
    const { lines, step } = diary()
    let away = true
    const { saga, begin, again } = kit.runner(
      [
        step('a', {
          do: async () => {
            if (away) throw new Error('away')
            lines.push('do a')
          },
        }),
      ],
      { maxTries: 2 },
    )
    const id = await begin()
    await saga.run()
    await again()
    away = false
    const resumed = await Promise.all([1, 2, 3].map(() => saga.resume(id, AUDIT)))
    expect(resumed.filter(Boolean)).toHaveLength(1)
    await again()
    expect(lines).toEqual(['do a'])
  })

  test('C09 (e): who parked it, and has not heard so, cannot park it again once it is resumed', async () => {
    const { step } = diary()
    const { saga, kind, begin } = kit.runner([step('a')])
    const id = await begin()
    const [held] = await kit.store.take({ kind, limit: 1, leaseMs: 60_000 })
    if (!held) throw new Error('nothing was due')
    const park = () => kit.store.save(held, { ...held, state: 'parked', waitMs: 0 })
    expect(await park()).toBe(true)
    expect(await park()).toBe(true) // the answer to the first was lost
    expect(await kit.tasks(id)).toHaveLength(1)
    await saga.resume(id, AUDIT)
    expect(await park()).toBe(false)
    expect(await saga.find(id)).toMatchObject({ status: 'running' })
  })

  test('P3: resumed, a step that may have been done is probed before it is repeated', async () => {
    const { lines, step } = diary()
    let known = false
    const { saga, begin, again } = kit.runner(
      [
        step('a', {
          do: async () => {
            lines.push('do a')
            throw new Error('answer lost')
          },
          probe: async () => ({ status: known ? 'done' : 'unknown' }),
        }),
      ],
      { maxTries: 2 },
    )
    const id = await begin()
    await saga.run()
    await again()
    known = true
    await saga.resume(id, AUDIT)
    await again()
    expect(lines).toEqual(['do a'])
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
  })

  test.each([
    ['done', ['do a', 'do b', 'undo b', 'undo a']],
    ['not-done', ['do a', 'do b', 'undo a']],
  ] as const)('P3: sent back by a person, a step found %s', async (found, expected) => {
    const { lines, step } = diary()
    let answer: 'unknown' | 'done' | 'not-done' = 'unknown'
    const { saga, begin, again } = kit.runner(
      [
        step('a'),
        step('b', {
          do: async () => {
            lines.push('do b')
            throw new Error('answer lost')
          },
          probe: async () => ({ status: answer }),
        }),
      ],
      { maxTries: 2 },
    )
    const id = await begin()
    await saga.run()
    await again()
    await saga.resume(id, AUDIT, 'undo')
    await again()
    expect(await saga.find(id)).toMatchObject({ status: 'undoing', step: 'b' })
    expect(lines).toEqual(['do a', 'do b'])
    answer = found
    await again()
    expect(lines).toEqual(expected)
    expect(await saga.find(id)).toMatchObject({ status: 'undone' })
  })

  test('P3: sent back by a person, a step without a probe is undone', async () => {
    const { lines, step } = diary()
    const { saga, begin, again } = kit.runner([step('a'), step('b', { do: broken() })], {
      maxTries: 2,
    })
    const id = await begin()
    await saga.run()
    await again()
    await saga.resume(id, AUDIT, 'undo')
    await again()
    expect(lines).toEqual(['do a', 'undo b', 'undo a'])
    expect(await saga.find(id)).toMatchObject({ status: 'undone' })
  })

  test('P3: what a person has settled himself is passed over, forwards and backwards', async () => {
    const { lines, step } = diary()
    const forward = kit.runner([step('a', { do: broken() }), step('b')], { maxTries: 2 })
    const id = await forward.begin()
    await forward.saga.run()
    await forward.again()
    await forward.saga.resume(id, AUDIT, 'settled')
    await forward.again()
    expect(lines).toEqual(['do b'])
    expect(await forward.saga.find(id)).toMatchObject({ status: 'done' })

    const back = kit.runner([
      step('a'),
      step('b', { undo: refused('cannot be taken back') }),
      step('c', { do: refused('no') }),
    ])
    const id2 = await back.begin()
    await back.saga.run()
    expect(await back.saga.find(id2)).toMatchObject({
      status: 'parked',
      step: 'b',
      tries: 1,
      reason: 'no',
      lastError: 'cannot be taken back',
    })
    await back.saga.resume(id2, AUDIT, 'settled')
    await back.again()
    expect(lines).toEqual(['do b', 'do a', 'do b', 'undo a'])
    expect(await back.saga.find(id2)).toMatchObject({ status: 'undone', reason: 'no' })
  })

  test('P3: settled at the last step, it is at rest at once', async () => {
    const { step } = diary()
    const { saga, begin, again } = kit.runner([step('a', { do: broken() })], { maxTries: 2 })
    const id = await begin()
    await saga.run()
    await again()
    await saga.resume(id, AUDIT, 'settled')
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
  })

  test.each([
    ['text that is no JSON', '{"amount":'],
    ['JSON that is no object', '[1]'],
    ['null', 'null'],
  ])(
    'P3: a row with %s is parked without running, and does not hold up others',
    async (_, data) => {
      const { lines, step } = diary()
      const { saga, begin } = kit.runner([step('a')])
      const id = await begin()
      await kit.knex('seckill_saga').where({ saga_id: id }).update({ data })
      await begin()
      await saga.run()
      expect(lines).toEqual(['do a'])
      expect(await saga.find(id)).toMatchObject({
        status: 'parked',
        data: null,
        lastError: 'the stored data cannot be read',
      })
      expect(await kit.tasks(id)).toHaveLength(1)
    },
  )

  test('P3: repaired by hand and resumed, it goes on', async () => {
    const { step } = diary()
    const { saga, begin, again } = kit.runner([step('a')])
    const id = await begin()
    await kit.knex('seckill_saga').where({ saga_id: id }).update({ data: '' })
    await saga.run()
    await kit.knex('seckill_saga').where({ saga_id: id }).update({ data: '{"amount":9}' })
    await saga.resume(id, AUDIT)
    await again()
    expect(await saga.find(id)).toMatchObject({ status: 'done', data: { amount: 9 } })
  })

  test('P3: a saga at a step that its definition no longer has there is parked, not misread', async () => {
    const { lines, step } = diary()
    const old = kit.runner([step('a'), step('b', { do: broken() })])
    const id = await old.begin()
    await old.saga.run()
    const now = kit.runner([step('a'), step('c')], { kind: old.kind })
    await now.again()
    expect(lines).toEqual(['do a'])
    expect(await now.saga.find(id)).toMatchObject({
      status: 'parked',
      lastError: 'this definition has no step b there',
    })
    await expect(now.saga.resume(id, AUDIT, 'settled')).rejects.toMatchObject({ code: 'CORRUPT' })
    await expect(now.saga.resume(id, AUDIT, 'undo')).rejects.toMatchObject({ code: 'CORRUPT' })
  })

  test('P3: a step that ends its process each time is parked without another try', async () => {
    const { lines, step } = diary()
    const { saga, begin } = kit.runner([step('a')], { maxTries: 3 })
    const id = await begin()
    await kit.knex('seckill_saga').where({ saga_id: id }).update({ tries: 3 })
    await saga.run()
    expect(lines).toEqual([])
    expect(await saga.find(id)).toMatchObject({
      status: 'parked',
      lastError: 'begun 3 times without an end',
    })
  })

  test('P3: a kind that nobody here knows is left alone, and alerted once it is a minute overdue', async () => {
    const { step } = diary()
    const stranger = kit.runner([step('a')])
    const id = await stranger.begin()
    const { saga, alerts, kind, begin } = kit.runner([step('a')])
    await begin()
    for (const overdue of [stranger.kind, kind]) await kit.ripen(overdue)
    await saga.run()
    expect(alerts).toContainEqual({ code: 'saga-unattended', kind: stranger.kind, due: 1 })
    expect(alerts.filter((alert) => alert['kind'] === kind)).toEqual([])
    expect(await stranger.saga.find(id)).toMatchObject({ status: 'running', tries: 0 })
    const said = alerts.length
    await saga.run()
    expect(alerts).toHaveLength(said) // not again within the minute
    await stranger.saga.run()
    expect(await stranger.saga.find(id)).toMatchObject({ status: 'done' })
  })
}
