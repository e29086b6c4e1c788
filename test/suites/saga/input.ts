import { describe, expect, test } from 'vitest'
import { CompensationSaga } from '../../../src/saga/compensation-saga.js'
import { AUDIT, diary, newId, type SagaKit } from './kit.js'

const LONG = 'x'.repeat(10_000)

export function inputTests(kit: SagaKit): void {
  const good = () => ({
    store: kit.store,
    definition: { kind: 'k', steps: [{ name: 'a', do: async () => {} }] },
  })
  const withStep = (step: unknown) => ({ definition: { kind: 'k', steps: [step] } })

  test.each<[string, unknown]>([
    ['no options', undefined],
    ['no store', { store: undefined }],
    ['a store that is none', { store: {} }],
    ['no definition', { definition: undefined }],
    ['a kind with blanks', { definition: { ...good, kind: 'a b', steps: [] } }],
    ['a long kind', { definition: { kind: LONG, steps: [{ name: 'a', do: async () => {} }] } }],
    ['no steps', { definition: { kind: 'k', steps: [] } }],
    ['steps that are none', { definition: { kind: 'k', steps: 'a' } }],
    [
      '51 steps',
      {
        definition: {
          kind: 'k',
          steps: Array.from({ length: 51 }, (_, i) => ({ name: `${i}`, do: async () => {} })),
        },
      },
    ],
    ['a step that is null', withStep(null)],
    ['a step without a name', withStep({ do: async () => {} })],
    ['a step with a name of 33', withStep({ name: 'x'.repeat(33), do: async () => {} })],
    ['a step named like a key', withStep({ name: 'a:b', do: async () => {} })],
    ['a step without do', withStep({ name: 'a' })],
    ['a probe that is none', withStep({ name: 'a', do: async () => {}, probe: 'done' })],
    ['an undo that is none', withStep({ name: 'a', do: async () => {}, undo: true })],
    [
      'two steps of a name',
      { definition: { kind: 'k', steps: [1, 2].map(() => ({ name: 'a', do: async () => {} })) } },
    ],
    ['an alert that is no function', { events: { onAlert: 'x' } }],
    ['everyMs 9', { everyMs: 9 }],
    ['concurrency 0', { concurrency: 0 }],
    ['concurrency 1.5', { concurrency: 1.5 }],
    ['leaseMs 99', { leaseMs: 99 }],
    ['leaseMs NaN', { leaseMs: Number.NaN }],
    ['stepTimeoutMs as text', { stepTimeoutMs: '5' }],
    ['maxTries 1', { maxTries: 1 }],
    ['maxTries as BigInt', { maxTries: 3n }],
  ])('P3: the constructor refuses %s', (_, wrong) => {
    const options = wrong === undefined ? undefined : { ...good(), ...(wrong as object) }
    expect(() => new CompensationSaga(options as never)).toThrow(
      expect.objectContaining({ code: 'BAD_OPTION' }),
    )
  })

  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle

  describe('P3: bad input is refused before any I/O, nothing is written', () => {
    test.each<[string, unknown]>([
      ['nothing', undefined],
      ['no id', { data: { amount: 1 } }],
      ['an empty id', { id: '', data: { amount: 1 } }],
      ['an id with a blank', { id: 'a b', data: { amount: 1 } }],
      ['an id of 10 kB', { id: LONG, data: { amount: 1 } }],
      ['a number as id', { id: 7, data: { amount: 1 } }],
      ['no data', { id: 'bad' }],
      ['null as data', { id: 'bad', data: null }],
      ['an array as data', { id: 'bad', data: [1] }],
      ['a Date as data', { id: 'bad', data: new Date(0) }],
      ['a BigInt in the data', { id: 'bad', data: { amount: 1n } }],
      ['an unsafe number in the data', { id: 'bad', data: { amount: 2 ** 60 } }],
      ['a cycle as data', { id: 'bad', data: cycle }],
      ['60,001 bytes of data', { id: 'bad', data: { s: 'x'.repeat(60_001 - 8) } }],
    ])('begin with %s', async (_, wrong) => {
      const { saga } = kit.runner([diary().step('a')])
      await kit.knex.transaction(async (trx) => {
        await expect(saga.begin(trx, wrong as never)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      })
      expect(await saga.find('bad')).toBeNull()
    })

    test('resume, find and parked', async () => {
      const { saga } = kit.runner([diary().step('a')])
      for (const wrong of [
        () => saga.find(LONG),
        () => saga.find(7 as never),
        () => saga.resume('', AUDIT),
        () => saga.resume('x', {} as never),
        () => saga.resume('x', { ...AUDIT, actor: LONG }),
        () => saga.resume('x', AUDIT, 'skip' as never),
        () => saga.parked({ limit: 0 }),
        () => saga.parked({ limit: 1.5 }),
        () => saga.parked(undefined as never),
      ])
        await expect(wrong()).rejects.toMatchObject({ code: 'BAD_INPUT' })
    })
  })

  test('P3: 60,000 bytes of data in any letters are kept', async () => {
    const { saga } = kit.runner([diary().step('a')])
    const id = newId()
    const data = { amount: 1, seen: ['秒杀🙂\u0000'.repeat(3_000), ''] }
    data.seen[1] = 'x'.repeat(60_000 - Buffer.byteLength(JSON.stringify(data)))
    await kit.knex.transaction((trx) => saga.begin(trx, { id, data }))
    expect((await saga.find(id))?.data).toEqual(data)
    await saga.run()
    expect(await saga.find(id)).toMatchObject({ status: 'done', data })
  })
}
