import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FlashSale, MemoryQueue } from 'flash-sale-kit'
import {
  activityControlSuite,
  activityStoreSuite,
  ManualClock,
  MemoryActivityControl,
  MemoryActivityStore,
  MemoryOrderBook,
  orderBookSuite,
  orderHooksSuite,
  outboxHandlerSuite,
  paymentHooksSuite,
  paymentProviderSuite,
  queueSuite,
  RecordedEvents,
  SandboxPayments,
  sagaStepsSuite,
} from 'flash-sale-kit/testing'
import RedisMock from 'ioredis-mock'
import { afterEach, describe, expect, it, vi } from 'vitest'

describe('in production', () => {
  afterEach(() => vi.unstubAllEnvs())
  const refused = { code: 'BAD_OPTION', message: expect.stringContaining('NODE_ENV=production') }

  it('V6: a channel that takes no money and fails on purpose cannot be made', () => {
    vi.stubEnv('NODE_ENV', 'production')
    expect(() => new SandboxPayments({ channel: 'wx' })).toThrow(expect.objectContaining(refused))
    vi.stubEnv('NODE_ENV', 'staging')
    expect(new SandboxPayments({ channel: 'wx' }).channel).toBe('wx')
  })

  it.each([
    ['queueSuite', queueSuite([])],
    ['paymentProviderSuite', paymentProviderSuite([])],
    ['orderHooksSuite', orderHooksSuite([])],
    ['paymentHooksSuite', paymentHooksSuite([])],
    ['sagaStepsSuite', sagaStepsSuite([])],
    ['outboxHandlerSuite', outboxHandlerSuite([])],
    ['orderBookSuite', orderBookSuite()],
    ['activityStoreSuite', activityStoreSuite()],
    ['activityControlSuite', activityControlSuite()],
  ])('V6: no case of %s runs, and nothing is made', async (name, cases) => {
    vi.stubEnv('NODE_ENV', 'production')
    const make = vi.fn()
    expect(cases.length).toBeGreaterThan(4)
    for (const { run } of cases) await expect(run(make)).rejects.toMatchObject(refused)
    await expect(cases[0]?.run(make)).rejects.toThrow(name)
    expect(make).not.toHaveBeenCalled()
  })
})

it('imports Node and itself, and no package at run time', () => {
  const src = fileURLToPath(new URL('../../src/', import.meta.url))
  const seen = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    const code = readFileSync(file, 'utf8')
    for (const [, what = '', from = ''] of code.matchAll(
      /^(?:import|export) ([^'"]*?)from '([^']+)'$/gms,
    )) {
      if (from.startsWith('.')) visit(join(dirname(file), from.replace(/\.js$/, '.ts')))
      else if (!from.startsWith('node:') && !what.startsWith('type ')) packages.add(from)
    }
  }
  visit(join(src, 'testing/index.ts'))
  expect(seen.size).toBeGreaterThan(40)
  expect([...packages]).toEqual([])
  // The kit knows the ports, and no implementation.
  const strangers = [...seen].filter((file) => !/^(core|testing)\//.test(file.slice(src.length)))
  expect(strangers).toEqual([])
})

describe('ManualClock', () => {
  it('stands still until it is told, and goes back too', () => {
    const { now, ...clock } = new ManualClock(5_000)
    expect([now(), now(), clock]).toEqual([5_000, 5_000, {}])
    const other = new ManualClock(5_000)
    other.advance(250)
    other.advance(-1_250)
    expect(other.now()).toBe(4_000)
    for (const ms of [0.5, Number.NaN, '1', -4_001])
      expect(() => other.advance(ms as number)).toThrow(
        expect.objectContaining({ code: 'BAD_INPUT' }),
      )
    expect(() => new ManualClock(-1)).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }))
  })
})

describe('RecordedEvents', () => {
  it('remembers what a sale refused and whom it would have paged', async () => {
    const events = new RecordedEvents()
    const control = new MemoryActivityControl()
    const activities = new MemoryActivityStore()
    const broken = { load: () => Promise.reject(new Error('away')), live: activities.live }
    const sale = new FlashSale({
      ...{ redis: new RedisMock(), queue: new MemoryQueue(), orders: new MemoryOrderBook() },
      ...{ activities: broken, control, events },
    })
    const buyer = { userId: 'ann', ip: '127.0.0.1' }
    await sale.submit({ activityId: 'a1', skuId: 's1', buyer })
    await sale.stop()
    expect(events.codes).toContain('activity-unread')
    expect(events.alerts[0]?.detail).toBeDefined()
    const said = { layer: 'gate', activityId: 'a1', skuId: 's1', userId: 'ann' }
    expect(events.refusals).toMatchObject([said])
    events.onError(new Error('x'))
    events.onDead('text', 'why')
    expect([events.errors.length, events.dead]).toEqual([1, [{ message: 'text', why: 'why' }]])
    events.clear()
    expect([events.codes, events.refusals, events.errors, events.dead]).toEqual([[], [], [], []])
  })
})
