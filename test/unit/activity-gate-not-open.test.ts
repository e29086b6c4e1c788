import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ActivityGate, type KnownActivity } from '../../src/gate/activity-gate.js'
import { activityOf } from '../suites/stock-bucket/world.js'

const T0 = 1_790_000_000_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'], now: T0 })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A sale that opens in `opensInMs` by Redis' clock, asked by a process whose clock is `aheadMs` ahead of it. */
async function crowd(opensInMs: number, aheadMs: number, o: { readonly exact?: boolean } = {}) {
  const redisNow = () => Date.now() - aheadMs
  const opensAt = redisNow() + opensInMs
  const store = { opensAt }
  const gate = new ActivityGate({
    activities: {
      load: async () => activityOf({ opensAt: store.opensAt, endsAt: opensAt + 3_600_000 }),
      live: async () => [],
    },
    control: {
      read: async () => ({ state: 'open', tokenEpoch: 1 }),
    },
    refreshMs: 50,
  })
  let asked = 0
  /** A click: refused from memory, or by Redis, or let in. */
  const click = async () => {
    const known = (await gate.look('a1')) as KnownActivity
    const refusal = gate.refusal(known, Date.now())
    if (refusal) return refusal
    asked++
    const left = opensAt - redisNow()
    if (left <= 0) return null
    if (o.exact) gate.notOpenYet('a1', opensAt, left)
    else gate.notOpenYet('a1', opensAt)
    return { status: 'not-open', opensAt } as const
  }
  /** Clicks every millisecond until one is let in; how late that is. */
  const lateBy = async () => {
    while ((await click()) !== null) await vi.advanceTimersByTimeAsync(1)
    return redisNow() - opensAt
  }
  return { gate, click, lateBy, opensAt, store, asked: () => asked }
}

describe('ActivityGate before the opening', () => {
  it.each([
    ['right', 0, 20],
    ['a tenth of a second behind', -100, 70],
    ['a tenth of a second ahead', 100, 20],
    ['3 s behind', -3_000, 1_000],
    ['3 s ahead', 3_000, 20],
    ['5 s behind', -5_000, 1_000],
  ])(
    'F1 C08 (d) with a clock that is %s asks Redis seldom, and opens in time',
    async (_, ahead, late) => {
      const sale = await crowd(8_000, ahead)
      const lateBy = await sale.lateBy()
      expect(lateBy).toBeGreaterThanOrEqual(0)
      expect(lateBy).toBeLessThanOrEqual(late)
      // The clicks of the last five seconds and more would be 5,000.
      expect(sale.asked()).toBeLessThanOrEqual(ahead > 0 ? 420 : 25)
    },
  )

  it.each([-3_000, 0, 3_000])(
    'F1 C08 (d) told the time left, opens to the millisecond (clock off by %d ms)',
    async (ahead) => {
      const sale = await crowd(8_000, ahead, { exact: true })
      expect(await sale.lateBy()).toBeLessThanOrEqual(1)
      expect(sale.asked()).toBeLessThanOrEqual(12)
    },
  )

  it('F1 C08 (d) is refused for a second at most, whatever is left', async () => {
    const sale = await crowd(60_000, 70_000) // this clock says it has been open for ten seconds
    await sale.click()
    sale.gate.notOpenYet('a1', sale.opensAt, 3_600_000)
    await vi.advanceTimersByTimeAsync(999)
    const before = sale.asked()
    expect(await sale.click()).toMatchObject({ status: 'not-open' })
    expect(sale.asked()).toBe(before)
    await vi.advanceTimersByTimeAsync(1)
    await sale.click()
    expect(sale.asked()).toBe(before + 1)
  })

  it('F1 C08 (d) an opening that the host moves forward is not refused for the old one', async () => {
    const sale = await crowd(4_000, 4_000)
    await sale.click()
    sale.gate.notOpenYet('a1', sale.opensAt, 4_000)
    sale.store.opensAt -= 4_000
    await vi.advanceTimersByTimeAsync(60)
    await sale.gate.look('a1') // the old copy; it is read again behind it
    await vi.advanceTimersByTimeAsync(0)
    const known = (await sale.gate.look('a1')) as KnownActivity
    expect(sale.gate.refusal(known, Date.now())).toBeNull()
  })

  it('F1 a hint about an activity that nobody has looked at is nothing', async () => {
    const sale = await crowd(1_000, 0)
    sale.gate.notOpenYet('other', sale.opensAt)
    expect(await sale.click()).toMatchObject({ status: 'not-open' })
  })
})
