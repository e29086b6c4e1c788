import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SaleControl } from '../../src/core/ports.js'
import type { Activity } from '../../src/core/types.js'
import { ActivityGate, type ActivityGateOptions } from '../../src/gate/activity-gate.js'
import { NO_KEY_ID } from '../suites/stock-bucket/input.js'
import { activityOf } from '../suites/stock-bucket/world.js'

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'],
    now: 1_790_000_000_000,
  })
})
afterEach(() => {
  vi.useRealTimers()
})

type Switch = Pick<SaleControl, 'state' | 'tokenEpoch'>
const OPEN: Switch = { state: 'open', tokenEpoch: 1 }

/** A host's store that counts its reads and can be slow, or down, or silly. */
function gate(o: Partial<ActivityGateOptions> = {}) {
  const host = {
    loads: [] as string[],
    down: false,
    silent: false,
    activity: activityOf() as Activity | null,
    control: OPEN as Switch,
  }
  const answer = <T>(value: T): Promise<T> => {
    if (host.silent) return new Promise(() => {})
    return host.down ? Promise.reject(new Error('store away')) : Promise.resolve(value)
  }
  const errors: unknown[] = []
  const g = new ActivityGate({
    activities: {
      load: (id) => {
        host.loads.push(id)
        return answer(host.activity && { ...host.activity, activityId: id })
      },
      live: async () => [],
    },
    control: {
      read: () => answer(host.control),
    },
    onError: (error) => errors.push(error),
    ...o,
  })
  return { g, host, errors }
}
const status = (look: unknown) => (look as { status?: string }).status ?? 'known'
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

describe('F1 a copy in the process', () => {
  it('is read once by a crowd that comes at once', async () => {
    const { g, host } = gate()
    const looks = await Promise.all(Array.from({ length: 1_000 }, () => g.look('a1')))
    expect(looks.every((look) => status(look) === 'known')).toBe(true)
    expect(host.loads).toEqual(['a1'])
    expect(looks[0]).toMatchObject({ activity: { activityId: 'a1' }, control: OPEN })
  })

  it('is a value, not a promise, from then on', async () => {
    const { g, host } = gate()
    await g.look('a1')
    await pass(999)
    expect(g.look('a1')).not.toBeInstanceOf(Promise)
    expect(host.loads).toHaveLength(1)
  })

  it('expires logically: one caller has it read again, and all use the old one meanwhile', async () => {
    const { g, host } = gate()
    await g.look('a1')
    await pass(1_001)
    host.control = { state: 'stopped', tokenEpoch: 2 }
    const looks = Array.from({ length: 1_000 }, () => g.look('a1'))
    expect(looks.some((look) => look instanceof Promise)).toBe(false)
    expect(looks[0]).toMatchObject({ control: { state: 'open' } })
    await pass(0)
    expect(host.loads).toHaveLength(2)
    expect(g.look('a1')).toMatchObject({ control: { state: 'stopped' } })
    expect(host.loads).toHaveLength(2)
  })

  it('is waited for when it is twice as old: a stop of then must be seen', async () => {
    const { g, host } = gate()
    await g.look('a1')
    await pass(2_001)
    host.control = { state: 'stopped', tokenEpoch: 1 }
    const looks = await Promise.all(Array.from({ length: 100 }, () => g.look('a1')))
    for (const look of looks) expect(look).toMatchObject({ control: { state: 'stopped' } })
    expect(host.loads).toHaveLength(2)
  })

  it('is forgotten at once by an act of this process, also while it is being read', async () => {
    const { g, host } = gate()
    await g.look('a1')
    await pass(1_500)
    void g.look('a1') // has begun to read the old state
    host.control = { state: 'stopped', tokenEpoch: 1 }
    g.forget('a1')
    expect(await g.look('a1')).toMatchObject({ control: { state: 'stopped' } })
  })
})

describe('a store that is away', () => {
  it('is bridged by the old copy for maxStaleMs, then it is busy; and recovers', async () => {
    const { g, host, errors } = gate({ maxStaleMs: 10_000 })
    await g.look('a1')
    host.down = true
    await pass(9_990)
    expect(status(await g.look('a1'))).toBe('known')
    await pass(20)
    expect(await g.look('a1')).toEqual({ status: 'busy', cause: 'probe', retryAfterMs: 1_000 })
    expect(errors).toMatchObject([{ message: 'store away' }])
    host.down = false
    await pass(300)
    expect(status(await g.look('a1'))).toBe('known')
  })

  it('is busy from the start when it was never read', async () => {
    const { g, host } = gate()
    host.down = true
    expect(status(await g.look('a1'))).toBe('busy')
  })

  it('is not asked by every click: once in a quarter of refreshMs', async () => {
    const { g, host } = gate()
    host.down = true
    for (let i = 0; i < 1_000; i++) {
      expect(status(await g.look('a1'))).toBe('busy')
      await pass(1)
    }
    expect(host.loads.length).toBeLessThanOrEqual(5)
  })

  it('that never answers keeps nobody longer than readTimeoutMs, and may come back', async () => {
    const { g, host, errors } = gate({ readTimeoutMs: 2_000, maxStaleMs: 60_000 })
    host.silent = true
    const first = g.look('a1')
    await pass(2_000)
    expect(status(await first)).toBe('busy')
    expect(errors).toHaveLength(1)
    host.silent = false
    await pass(300)
    expect(status(await g.look('a1'))).toBe('known')
    host.silent = true
    await pass(5_000)
    const stale = g.look('a1')
    await pass(2_000)
    expect(status(await stale)).toBe('known')
  })

  it('does not fail when the host’s own error handler does', async () => {
    const { g, host } = gate({
      onError: () => {
        throw new Error('the logger is down')
      },
    })
    host.down = true
    expect(status(await g.look('a1'))).toBe('busy')
  })
})

describe('ids that nobody has on sale', () => {
  it('are not found, and the store is asked once', async () => {
    const { g, host } = gate()
    host.activity = null
    for (let i = 0; i < 10; i++) expect(await g.look('x')).toEqual({ status: 'not-found' })
    expect(host.loads).toEqual(['x'])
  })

  it('do not pile up, and do not push out a sale', async () => {
    const { g, host } = gate()
    await g.look('a1')
    host.activity = null
    for (let i = 0; i < 10_500; i++) await g.look(`x${i}`)
    const copies = (g as unknown as { copies: Map<string, unknown> }).copies
    expect(copies.size).toBeLessThanOrEqual(10_000)
    expect(copies.has('a1')).toBe(true)
  })

  it('reach a silent store 10,000 times at most', async () => {
    vi.useRealTimers()
    const { g, host } = gate({ readTimeoutMs: 500 })
    host.silent = true
    const looks = Array.from({ length: 10_050 }, (_, i) => g.look(`x${i}`))
    expect(status(await looks.at(-1))).toBe('busy')
    expect(host.loads.length).toBeLessThanOrEqual(10_000)
    const told = new Set((await Promise.all(looks)).map(status))
    expect([...told]).toEqual(['busy'])
  })

  it('are refused when they are none, without asking', async () => {
    const { g, host } = gate()
    for (const id of NO_KEY_ID)
      await expect(Promise.resolve(g.look(id as never)), String(id)).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    expect(host.loads).toEqual([])
  })
})

describe('a store that answers what is no activity', () => {
  it.each([
    ['C08 seconds', { opensAt: 1_790_000_000 }],
    ['C08 a string', { opensAt: '2026-11-11' }],
    ['a Date', { endsAt: new Date() }],
    ['an end before the start', { endsAt: 1_000_000_000_000 }],
    ['no SKUs', { skus: [] }],
  ])('is refused with BAD_INPUT: %s', async (_, o) => {
    const { g, host } = gate()
    host.activity = { ...activityOf(), ...o } as never
    await expect(Promise.resolve(g.look('a1'))).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })

  it.each([
    undefined,
    null,
    {},
    { state: 'OPEN', tokenEpoch: 1 },
    { state: 'open' },
    { state: 'open', tokenEpoch: '1' },
  ])('or no switch: %j', async (control) => {
    const { g, host } = gate()
    host.control = control as never
    await expect(Promise.resolve(g.look('a1'))).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })

  it('does not lose the copy it had', async () => {
    const { g, host } = gate()
    await g.look('a1')
    host.activity = { ...activityOf(), opensAt: 5 }
    await pass(1_500)
    expect(status(g.look('a1'))).toBe('known')
    await pass(0)
    expect(status(g.look('a1'))).toBe('known')
  })

  it('C10 of another name is not this one', async () => {
    const g = new ActivityGate({
      // A collation that ignores case finds 'A1' for 'a1'.
      activities: { load: async () => activityOf({ activityId: 'A1' }), live: async () => [] },
      control: {
        read: async () => OPEN,
      },
    })
    expect(await g.look('a1')).toEqual({ status: 'not-found' })
    expect(status(await g.look('A1'))).toBe('known')
  })
})

describe('C08 the window, by this process’ clock with leeway', () => {
  const activity = activityOf({ opensAt: 1_790_000_000_000, endsAt: 1_790_000_100_000 })
  const { g } = gate({ clockLeewayMs: 5_000 })
  it.each([
    [-5_001, 'not-open'],
    [-5_000, null],
    [0, null],
    [104_999, null],
    [105_000, 'ended'],
  ])('%d ms after the start: %s', (ms, refusal) => {
    const told = g.refusal({ activity, control: OPEN }, activity.opensAt + ms)
    expect(told?.status ?? null).toBe(refusal)
  })

  it('has no leeway in strong mode, where nobody decides after it', () => {
    const known = { activity: { ...activity, mode: 'strong' as const }, control: OPEN }
    const { opensAt, endsAt } = activity
    expect(g.refusal(known, opensAt - 1)).toEqual({ status: 'not-open', opensAt })
    expect(g.refusal(known, opensAt)).toBeNull()
    expect(g.refusal(known, endsAt - 1)).toBeNull()
    expect(g.refusal(known, endsAt)).toEqual({ status: 'ended' })
  })

  it('says when it opens, and that it is stopped', () => {
    expect(g.refusal({ activity, control: OPEN }, 1_789_000_000_000)).toEqual({
      status: 'not-open',
      opensAt: activity.opensAt,
    })
    const stopped = { activity, control: { ...OPEN, state: 'stopped' as const } }
    expect(g.refusal(stopped, activity.opensAt)).toEqual({ status: 'stopped' })
  })

  it('never lets a time pass that is none', () => {
    for (const now of [Number.NaN, undefined, null, '1790000000000', 1_790_000_000])
      expect(() => g.refusal({ activity, control: OPEN }, now as never)).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
  })

  it('holds no timer, however far the start is', async () => {
    const far = gate()
    far.host.activity = activityOf({ opensAt: 1_800_000_000_000, endsAt: 1_800_000_000_001 })
    await far.g.look('a1')
    expect(vi.getTimerCount()).toBe(0)
  })
})

it('a bad option is refused by the constructor, with its name', () => {
  const ports = {
    activities: { load: async () => null, live: async () => [] },
    control: {
      read: async () => OPEN,
    },
  }
  for (const [name, o] of [
    ['options', null],
    ['options', []],
    ['activities', { control: ports.control }],
    ['activities', { ...ports, activities: {} }],
    ['control', { activities: ports.activities }],
    ['control', { ...ports, control: { read: 5 } }],
    ['onError', { ...ports, onError: 'x' }],
    ...['refreshMs', 'maxStaleMs', 'readTimeoutMs', 'clockLeewayMs'].flatMap((option) =>
      [-1, 0.5, Number.NaN, Infinity, '5', null, 1e15].map(
        (value) => [option, { ...ports, [option]: value }] as const,
      ),
    ),
  ] as const)
    expect(() => new ActivityGate(o as never), name).toThrow(name)
})
