import { createRequire } from 'node:module'
import { FlashSale, Payments, TriangleReconciler } from 'flash-sale-kit'
import { type Fengari, fengariVm, flashSaleIn, simulate } from 'flash-sale-kit/testing'
import { describe, expect, it, test } from 'vitest'
import * as generated from '../../src/redis/scripts.generated.js'
import { BROKEN } from '../../src/testing/sim/broken.js'
import { Choices } from '../../src/testing/sim/choices.js'
import { runOnce } from '../../src/testing/sim/run.js'

const scripts = Object.values(generated).filter((script) => typeof script === 'object')
const lua = fengariVm(createRequire(import.meta.url)('fengari') as Fengari)
const world = { sale: flashSaleIn({ FlashSale, TriangleReconciler, Payments }), lua, scripts }
const broken = (id: string) => BROKEN.find((b) => b.id === id) ?? expect.fail(id)

describe('the simulator', () => {
  it('makes the same run of the same seed, byte for byte', { timeout: 180_000 }, async () => {
    const traces = new Set<string>()
    for (let seed = 1; seed <= 5; seed++) {
      const first = await runOnce(world, Choices.ofSeed(seed, 120))
      const second = await runOnce(world, Choices.ofSeed(seed, 120))
      expect(second).toEqual(first)
      expect(first.steps, 'something happens').toBeGreaterThan(20)
      traces.add(first.trace.join())
    }
    expect(traces.size, 'and another of another').toBe(5)
  })

  it('makes a run again from the choices that it made', { timeout: 180_000 }, async () => {
    const run = await runOnce(world, Choices.ofSeed(42, 120))
    expect(await runOnce(world, Choices.of(run.choices))).toEqual(run)
  })

  it('finds nothing in the library as it is', { timeout: 180_000 }, async () => {
    expect(await simulate({ ...world, seeds: 25 })).toMatchObject({ seeds: 25, breach: null })
  })

  it('goes on with the next seed where it was told to begin', async () => {
    const seen: number[] = []
    await simulate({ ...world, from: 7, seeds: 3, maxSteps: 10, onSeed: (seed) => seen.push(seed) })
    expect(seen).toEqual([7, 8, 9])
  })

  it('ends between two seeds', async () => {
    const abort = new AbortController()
    const o = { seeds: 100, maxSteps: 5, signal: abort.signal, onSeed: () => abort.abort() }
    expect(await simulate({ ...world, ...o })).toMatchObject({ seeds: 1, breach: null })
  })

  it('leaves the time of everything else alone, and gives the process its timers back', async () => {
    const timers = () => [
      ...[setTimeout, setImmediate, clearTimeout, setInterval, clearInterval],
      ...[Date.now, performance.now],
    ]
    const before = timers()
    const realNow = Date.now
    const ticked = new Promise<number>((resolve) => {
      const look = () => (Date.now === realNow ? setTimeout(look, 0) : resolve(Date.now()))
      setTimeout(look, 0)
    })
    const simulated = simulate({ ...world, seeds: 1, maxSteps: 5 })
    expect(Date.now, 'it does take them').not.toBe(realNow)
    expect(Math.abs((await ticked) - Date.now())).toBeLessThan(600_000)
    await simulated
    const failing = () => {
      throw new Error('cannot open')
    }
    await expect(simulate({ ...world, sale: failing, seeds: 1 })).rejects.toThrow('cannot open')
    expect(timers()).toEqual(before)
  })

  test.each([
    ['seeds', 0],
    ['seeds', 1.5],
    ['seeds', '9'],
    ['from', -1],
    ['maxSteps', Number.NaN],
    ['shrinkRuns', 1n],
    ['sale', {}],
    ['lua', null],
  ])('refuses %s = %s', async (name, value) => {
    const refused = simulate({ ...world, [name]: value } as never)
    await expect(refused).rejects.toMatchObject({
      code: 'BAD_OPTION',
      message: expect.stringContaining(`option ${name}`),
    })
  })
})

describe('a broken rule is caught', () => {
  test.each([
    ['A0', 'law 3', 12],
    ['F1', 'law 3', 20],
    ['J1', 'I7', 12],
    ['L1', 'I2+', 2],
    ['K-blind', 'I2+', 30],
    ['R2', 'I6', 40],
    ['P-direct', 'I6', 30],
    ['U4', 'I2', 3],
  ])('%s by %s, with a trace of at most %i steps', { timeout: 180_000 }, async (id, rule, most) => {
    const { breach } = await simulate({
      ...world,
      broken: broken(id),
      seeds: 200,
      shrinkRuns: 100,
    })
    expect(breach).toMatchObject({ rule })
    expect(breach?.trace.length).toBeLessThanOrEqual(most)
  })

  it('the shortest trace is of the same seed each time', async () => {
    const o = { ...world, broken: broken('L1'), seeds: 1 }
    expect((await simulate(o)).breach?.trace).toEqual([
      '  1  app1    buyer A clicks for 1: A1',
      '  2  app1    Redis: deduct A1',
    ])
  })

  test.each(BROKEN.filter((b) => b.lua).map((b) => [b.id, b] as const))(
    '%s changes one passage of one script, and it still compiles',
    (_, { lua: change = (text: string) => text }) => {
      const changed = scripts.filter((s) => change(s.lua) !== s.lua)
      expect(changed).toHaveLength(1)
      const text = change(changed[0]?.lua ?? '')
      expect(() => lua.run(`return function() ${text} end`, [], [], () => null)).not.toThrow()
    },
  )
})

describe('the Lua of the simulator', () => {
  const run = (text: string, command: Parameters<typeof lua.run>[3] = () => null) =>
    lua.run(text, ['k'], ['v', '2'], command)

  it('answers as Redis does: whole numbers, nil as the end, booleans as 1 and nothing', () => {
    expect(run("return {1, 'a', 2.9, {3, 'b'}, true, false}")).toEqual([
      1,
      'a',
      2,
      [3, 'b'],
      1,
      null,
    ])
    expect(run('return {1, nil, 3}')).toEqual([1])
    expect(run('return {KEYS[1], ARGV[1], #ARGV, unpack({4, 5})}')).toEqual(['k', 'v', 2, 4, 5])
  })

  it('hands commands over as text, and nothing found as false', () => {
    const asked: unknown[] = []
    const reply = run("return redis.call('HGET', KEYS[1], 'f') == false and 1 or 0", (...call) => {
      asked.push(call)
      return null
    })
    expect([reply, asked]).toEqual([1, [['HGET', ['k', 'f']]]])
  })

  it('throws what a script or a command throws, and runs on', () => {
    const fail = () => {
      throw new Error('WRONGTYPE no')
    }
    expect(() => run("redis.call('HGET', 'x', 'y')", fail)).toThrow('WRONGTYPE no')
    expect(() => run('this is no Lua')).toThrow('ERR')
    expect(run('return 7')).toBe(7)
  })
})
