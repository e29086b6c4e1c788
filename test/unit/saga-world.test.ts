import { describe, expect, test } from 'vitest'
import type { ResumeHow } from '../../src/saga/compensation-saga.js'
import { openDatabase } from '../harness/databases.js'
import { AUDIT, type Runner, type SagaKit, useSagas } from '../suites/saga/kit.js'
import { dice, World } from '../suites/saga/world.js'

const SEEDS = 300
const SEEDS_A_TEST = 10

/** Several sagas in a world that fails at every point, by two runners that now and then both think they hold one. */
async function live(kit: SagaKit, seed: number) {
  const random = dice(seed)
  const world = new World(random)
  const steps = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, i) =>
    world.step(`s${i}`, { idempotent: random() < 0.5, refuses: random() * 0.3 }),
  )
  const options = { store: world.store(kit.store), maxTries: 4, everyMs: 10 }
  const one = kit.runner(steps, options)
  const two = kit.runner(steps, { ...options, kind: one.kind })
  const ids: string[] = []
  for (let i = 0; i < 3; i++) ids.push(await one.begin())
  const thieves: Promise<unknown>[] = []
  world.steal = async () => {
    await kit.ripen(one.kind)
    thieves.push(two.saga.run().catch(() => {}))
  }

  const rest = async () => {
    for (let round = 0; round < 200; round++) {
      await one.again().catch(() => {})
      await Promise.all(thieves.splice(0))
      const found = await Promise.all(ids.map((id) => one.saga.find(id)))
      if (found.every((saga) => saga && ['done', 'undone', 'parked'].includes(saga.status)))
        return found.map((saga) => ({ id: saga?.sagaId ?? '', status: saga?.status }))
    }
    throw new Error(`seed ${seed}: no rest after 200 rounds`)
  }
  const effectsOf = (id: string) =>
    steps.map(({ name }) => {
      const key = `${id}:${name}`
      return [world.done.get(key) ?? 0, world.undone.get(key) ?? 0] as const
    })
  return { world, random, one, rest, effectsOf }
}

async function check(kit: SagaKit, seed: number): Promise<Set<string>> {
  const { world, random, one, rest, effectsOf } = await live(kit, seed)
  const seen = new Set<string>()
  const look = async () => {
    const sagas = await rest()
    for (const { id, status } of sagas) {
      seen.add(`${status}`)
      const effects = effectsOf(id)
      const what = `seed ${seed}: ${status} ${JSON.stringify(effects)}`
      for (const [done, undone] of effects) {
        expect(done, what).toBeLessThanOrEqual(1)
        expect(undone, what).toBeLessThanOrEqual(done)
      }
      if (status === 'done')
        expect(
          effects.every(([done, undone]) => done - undone === 1),
          what,
        ).toBe(true)
      else if (status === 'undone')
        expect(
          effects.every(([done, undone]) => done === undone),
          what,
        ).toBe(true)
      else
        expect(
          (await kit.tasks(id)).filter((t) => t['resolved_at'] === null),
          what,
        ).toHaveLength(1)
    }
    return sagas.filter(({ status }) => status === 'parked')
  }
  const parked = await look()
  world.faulty = false
  await resume(one, parked, random() < 0.5 ? 'again' : 'undo')
  expect(await look(), `seed ${seed}: a person's act in a world without faults ends all`).toEqual(
    [],
  )
  return seen
}

async function resume(
  { saga }: Runner,
  parked: readonly { readonly id: string }[],
  how: ResumeHow,
): Promise<void> {
  for (const { id } of parked) expect(await saga.resume(id, AUDIT, how)).toBe(true)
}

describe('P3: sagas in a world that fails everywhere', () => {
  const kit = useSagas('sqlite', async () => {
    const address = { kind: 'sqlite', filename: ':memory:' } as const
    const knex = openDatabase(address)
    return { kind: 'sqlite', knex, address, destroy: () => knex.destroy() }
  })
  const ends = new Set<string>()

  test.each(Array.from({ length: SEEDS / SEEDS_A_TEST }, (_, i) => i * SEEDS_A_TEST))(
    'all done, all undone, or parked; each effect once (10 seeds from %i)',
    async (first) => {
      for (let seed = first; seed < first + SEEDS_A_TEST; seed++)
        for (const end of await check(kit, seed)) ends.add(end)
    },
    60_000,
  )

  test('all three ends were seen', () => {
    expect([...ends].sort()).toEqual(['done', 'parked', 'undone'])
  })
})
