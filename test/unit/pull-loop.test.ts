import { expect, it } from 'vitest'
import { PullLoop } from '../../src/core/pull-loop.js'
import { until } from '../harness/net.js'

/** A source whose takes are answered by the test, one at a time. */
function source() {
  const seen = { handled: [] as number[], givenBack: [] as number[], takes: 0 }
  let answer: (taken: readonly number[] | number) => void = () => {}
  const loop = new PullLoop<number>(
    {
      take: () =>
        new Promise((resolve) => {
          seen.takes++
          answer = resolve
        }),
      handle: async (taken) => void seen.handled.push(...taken),
      giveBack: async (taken) => void seen.givenBack.push(...taken),
    },
    () => {},
  )
  return { seen, loop, answer: (taken: readonly number[] | number) => answer(taken) }
}
const takes = (s: ReturnType<typeof source>, n: number) =>
  until(`take ${n} has begun`, () => s.seen.takes === n)

it.each(['pause', 'stop'] as const)(
  'gives back what arrives after %s, and hands it to nobody',
  async (act) => {
    const s = source()
    await takes(s, 1)
    const ended = s.loop[act]()
    s.answer([1, 2])
    await ended
    expect(s.seen).toEqual({ handled: [], givenBack: [1, 2], takes: 1 })
    if (act === 'pause') {
      s.loop.resume()
      await takes(s, 2)
      s.answer([3])
      await takes(s, 3)
      expect(s.seen.handled).toEqual([3])
    }
    const stopped = s.loop.stop()
    s.answer(1_000)
    await stopped
  },
)

it('does not sleep through a message that came while it was looking', async () => {
  const s = source()
  await takes(s, 1)
  s.loop.wake()
  s.answer(60_000)
  await takes(s, 2)
  s.answer(60_000)
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(s.seen.takes).toBe(2)
  await s.loop.stop()
})

it('asks again after as many ms as the source says', async () => {
  const s = source()
  await takes(s, 1)
  const begun = performance.now()
  s.answer(40)
  await takes(s, 2)
  expect(performance.now() - begun).toBeGreaterThan(35)
  const stopped = s.loop.stop()
  s.answer(60_000)
  await stopped
})
