import { expect } from 'vitest'
import type { RateCap } from '../../src/queue/rate-cap.js'

/** Writers that take turns for `ms`, each commit of its own length; returns when how many orders were committed. */
export async function write(caps: readonly RateCap[], o: { orders: number; ms: number }) {
  const commits: { at: number; orders: number }[] = []
  const abort = new AbortController()
  const end = performance.now() + o.ms
  const writers = caps.map(async (cap) => {
    while (performance.now() < end) {
      const orders = 1 + Math.floor(Math.random() * o.orders)
      const written = await cap.take(orders, abort.signal)
      if (!written) return
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 300))
      commits.push({ at: performance.now(), orders })
      written()
    }
  })
  setTimeout(() => abort.abort(), o.ms)
  await Promise.all(writers)
  return commits
}

/** Slides a window of one second over the commits. */
export function expectCapped(
  commits: readonly { readonly at: number; readonly orders: number }[],
  perSecond: number,
): void {
  for (const { at } of commits) {
    const inWindow = commits.filter((c) => c.at >= at && c.at < at + 1_000)
    const sum = inWindow.reduce((orders, c) => orders + c.orders, 0)
    expect(sum).toBeLessThanOrEqual(perSecond)
  }
}
