import { expect, test } from 'vitest'
import type { SagaContext } from '../../../src/core/saga.js'
import { broken, diary, refused, type SagaKit } from './kit.js'

export function stepTests(kit: SagaKit): void {
  test('P3: steps are done in order, each with what the earlier ones returned', async () => {
    const { lines, step } = diary()
    const told: unknown[] = []
    const { saga, begin } = kit.runner([
      step('a', { do: async () => ({ status: 'done', data: { seen: ['a'] } }) }),
      step('b', {
        do: async (data) => ({ status: 'done', data: { seen: [...(data.seen ?? []), 'b'] } }),
      }),
      step('c', {
        do: async (data, { sagaId, key, attempt, fence, signal }) => {
          told.push(data, sagaId, key, attempt, fence, signal.aborted)
        },
      }),
    ])
    const id = await begin({ amount: 5 })
    await saga.run()
    expect(told).toEqual([{ amount: 5, seen: ['a', 'b'] }, id, `${id}:c`, 1, 1, false])
    expect(lines).toEqual([])
    expect(await saga.find(id)).toMatchObject({
      status: 'done',
      step: 'c',
      data: { amount: 5, seen: ['a', 'b'] },
      reason: null,
      lastError: null,
    })
  })

  test('P3: a refusal undoes the completed steps in reverse order, and not the refusing one', async () => {
    const { lines, step } = diary()
    const { undo: _, ...harmless } = step('look')
    const { saga, begin } = kit.runner([
      step('a'),
      harmless,
      step('b'),
      step('c', { do: refused('no funds') }),
      step('d'),
    ])
    const id = await begin()
    await saga.run()
    expect(lines).toEqual(['do a', 'do look', 'do b', 'undo b', 'undo a'])
    expect(await saga.find(id)).toMatchObject({
      status: 'undone',
      reason: 'no funds',
      lastError: null,
    })
    expect(await kit.tasks(id)).toEqual([])
  })

  test('P3: refused at the first step, there is nothing to undo', async () => {
    const { lines, step } = diary()
    const { saga, begin } = kit.runner([step('a', { do: refused('x'.repeat(1_000)) }), step('b')])
    const id = await begin()
    await saga.run()
    expect(lines).toEqual([])
    expect(await saga.find(id)).toMatchObject({ status: 'undone', reason: 'x'.repeat(200) })
  })

  test('P3: a step that throws is repeated with the same key, after 1 s, 5 s, 30 s, 2 min, 10 min, 10 min (D4)', async () => {
    const { step } = diary()
    const told: SagaContext[] = []
    const { saga, begin, again } = kit.runner([
      step('a', {
        do: async (_, context) => {
          told.push(context)
          if (told.length < 7) throw new Error('no answer')
        },
      }),
    ])
    const id = await begin()
    const pauses: number[] = []
    await saga.run()
    while ((await saga.find(id))?.status === 'running') {
      const now = await saga.find(id)
      expect(now).toMatchObject({ tries: told.length, lastError: 'Error: no answer' })
      pauses.push(Math.round(((now?.nextAt ?? 0) - (now?.updatedAt ?? 0)) / 1_000))
      await saga.run() // too early: nothing is due
      await again()
    }
    expect(pauses).toEqual([1, 5, 30, 120, 600, 600])
    expect(new Set(told.map(({ key }) => key))).toEqual(new Set([`${id}:a`]))
    expect(told.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7])
    expect(told.map(({ fence }) => fence)).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  test('P3: threw, and the probe finds it done: not repeated, its result is kept', async () => {
    const { lines, step } = diary()
    const { saga, begin, again } = kit.runner([
      step('a', {
        do: async () => {
          lines.push('do a')
          throw new Error('answer lost')
        },
        probe: async () => ({ status: 'done', data: { seen: ['by the probe'] } }),
      }),
      step('b'),
    ])
    const id = await begin()
    await saga.run()
    await again()
    expect(lines).toEqual(['do a', 'do b'])
    expect(await saga.find(id)).toMatchObject({ status: 'done', data: { seen: ['by the probe'] } })
  })

  test('P3: threw, and the probe finds nothing done: repeated', async () => {
    const { lines, step } = diary()
    const { saga, begin, again } = kit.runner([
      step('a', {
        do: async (_, { attempt }) => {
          lines.push('do a')
          if (attempt === 1) throw new Error('no connection')
        },
        probe: async () => {
          lines.push('probe a')
          return { status: 'not-done' }
        },
      }),
    ])
    const id = await begin()
    await saga.run()
    await again()
    expect(lines).toEqual(['do a', 'probe a', 'do a'])
    expect(await saga.find(id)).toMatchObject({ status: 'done' })
  })

  test('P3: threw, and the probe does not know: neither repeated nor undone until it does', async () => {
    const { lines, step } = diary()
    let answer: 'unknown' | 'throws' | 'done' = 'unknown'
    const { saga, begin, again } = kit.runner([
      step('a'),
      step('b', {
        do: async () => {
          lines.push('do b')
          throw new Error('answer lost')
        },
        probe: async () => {
          if (answer === 'throws') throw new Error('the channel is away')
          return { status: answer }
        },
      }),
      step('c', { do: refused('no') }),
    ])
    const id = await begin()
    await saga.run()
    await again()
    answer = 'throws'
    await again()
    expect(lines).toEqual(['do a', 'do b'])
    expect(await saga.find(id)).toMatchObject({ status: 'running', step: 'b', tries: 3 })
    answer = 'done'
    await again()
    expect(lines).toEqual(['do a', 'do b', 'undo b', 'undo a'])
    expect(await saga.find(id)).toMatchObject({ status: 'undone', reason: 'no' })
  })

  test('P3: undo is retried from storage, by another process too, with the same key', async () => {
    const { lines, step } = diary()
    const keys: string[] = []
    const steps = (undo: () => Promise<void>) => [
      step('a', {
        undo: async (_: unknown, { key }: SagaContext) => {
          keys.push(key)
          await undo()
        },
      }),
      step('b', { do: refused('no') }),
    ]
    const first = kit.runner(steps(broken('away')))
    const id = await first.begin()
    await first.saga.run()
    await first.again()
    expect(await first.saga.find(id)).toMatchObject({
      status: 'undoing',
      step: 'a',
      tries: 2,
      reason: 'no',
      lastError: 'Error: away',
    })
    const second = kit.runner(
      steps(async () => void lines.push('undo a')),
      { kind: first.kind },
    )
    await second.again()
    expect(lines).toEqual(['do a', 'undo a'])
    expect(keys).toEqual([`${id}:a`, `${id}:a`, `${id}:a`])
    expect(await second.saga.find(id)).toMatchObject({ status: 'undone', reason: 'no' })
  })

  test('P3: a step without an end counts as unknown, and its signal aborts', async () => {
    const { step } = diary()
    let signal: AbortSignal | undefined
    const { saga, begin } = kit.runner(
      [
        step('a', {
          do: (_, context) => {
            signal = context.signal
            return new Promise(() => {})
          },
        }),
      ],
      { stepTimeoutMs: 50 },
    )
    const id = await begin()
    await saga.run()
    expect(signal?.aborted).toBe(true)
    expect(await saga.find(id)).toMatchObject({
      status: 'running',
      tries: 1,
      lastError: 'no end within 50 ms',
    })
  })

  test.each<[string, unknown, string]>([
    ['a word', 'done', 'do must return nothing, or a status'],
    ['a strange status', { status: 'ok' }, 'do must return nothing, or a status'],
    ['data that is none', { status: 'done', data: 7 }, 'data must be an object'],
    ['a BigInt', { status: 'done', data: { amount: 1n } }, 'must be JSON'],
    ['an unsafe number', { status: 'done', data: { amount: 2 ** 60 } }, '2^53'],
    ['too much', { status: 'done', data: { seen: ['x'.repeat(60_000)] } }, '60000 bytes'],
  ])('P3: a step that returns %s is not taken at its word', async (_, result, error) => {
    const { step } = diary()
    const { saga, begin } = kit.runner([step('a', { do: async () => result as undefined })])
    const id = await begin()
    await saga.run()
    const now = await saga.find(id)
    expect(now).toMatchObject({ status: 'running', tries: 1, data: { amount: 1 } })
    expect(now?.lastError).toContain(error)
  })

  test('P3: what a step writes into its data, and what no database stores, does no harm', async () => {
    const { step } = diary()
    const { saga, begin } = kit.runner([
      step('a', {
        do: async (data) => {
          Object.assign(data, { amount: 666 })
        },
      }),
      step('b', { do: broken('a \0 and half a \ud800 pair') }),
    ])
    const id = await begin()
    await saga.run()
    expect(await saga.find(id)).toMatchObject({
      data: { amount: 1 },
      lastError: 'Error: a \ufffd and half a \ufffd pair',
    })
  })
}
