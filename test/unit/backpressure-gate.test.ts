import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  BackpressureGate,
  type BackpressureGateOptions,
  type Probe,
  type ProbeReading,
} from '../../src/gate/backpressure-gate.js'

const BUSY = { status: 'busy', cause: 'probe', retryAfterMs: 1_000 }
const OPEN = { status: 'open' }

let gates: BackpressureGate[] = []
beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(async () => {
  const stopped = Promise.all(gates.map((gate) => gate.stop()))
  await vi.advanceTimersByTimeAsync(5_000)
  await stopped
  gates = []
  expect(vi.getTimerCount(), 'timers left behind').toBe(0)
  vi.useRealTimers()
})

/** A probe that answers what it is told to, when it is told to. */
interface Told extends Probe {
  answer: (signal: AbortSignal) => unknown
  reads: number
}

function told(o: Partial<Probe> = {}): Told {
  const probe: Told = {
    answer: () => 0,
    reads: 0,
    name: 'lag',
    high: 5_000,
    low: 2_500,
    read(signal: AbortSignal) {
      probe.reads++
      return probe.answer(signal) as number
    },
    ...o,
  }
  return probe
}

async function started(
  o: Partial<BackpressureGateOptions> & Pick<BackpressureGateOptions, 'probes'>,
) {
  const gate = new BackpressureGate({
    intervalMs: 100,
    timeoutMs: 200,
    closeAfterUnknownMs: 1_000,
    ...o,
  })
  gates.push(gate)
  await gate.start()
  await vi.advanceTimersByTimeAsync(0)
  return gate
}

const later = (ms: number) => vi.advanceTimersByTimeAsync(ms)

describe('BackpressureGate', () => {
  it('F7 closes at the high mark and reopens at the low one, both inclusive', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    const states: string[] = []
    for (const lag of [4_999, 5_000, 2_501, 2_500, 4_999, 5_001, 0]) {
      probe.answer = () => lag
      await later(100)
      states.push(gate.check().status)
    }
    expect(states).toEqual(['open', 'busy', 'busy', 'open', 'open', 'busy', 'open'])
    expect(gate.check()).toEqual(OPEN)
  })

  it('C12 (h) a lag that dances around the high mark does not make it flap', async () => {
    const changes: ProbeReading[] = []
    const probe = told()
    const gate = await started({ probes: [probe], onChange: (reading) => changes.push(reading) })
    for (const lag of [0, 6_000, 4_990, 5_010, 4_990, 5_010]) {
      probe.answer = () => lag
      await later(100)
    }
    expect(gate.check()).toEqual(BUSY)
    expect(changes).toMatchObject([{ name: 'lag', value: 6_000, state: 'high' }])
  })

  it('F7 one probe of several is enough, and all must be well again', async () => {
    const [a, b] = [told({ name: 'a' }), told({ name: 'b' })]
    const gate = await started({ probes: [a, b], retryAfterMs: 2_500 })
    a.answer = () => 9_000
    b.answer = async () => 9_000
    await later(100)
    expect(gate.check()).toEqual({ ...BUSY, retryAfterMs: 2_500 })
    a.answer = () => 0
    await later(100)
    expect(gate.readings().map((r) => r.state)).toEqual(['open', 'high'])
    expect(gate.check().status).toBe('busy')
    b.answer = () => 0
    await later(100)
    expect(gate.check()).toEqual(OPEN)
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('broker away')
      },
    ],
    ['rejects', () => Promise.reject(new Error('broker away'))],
    ['hangs', () => new Promise(() => {})],
    ['says unknown', () => 'unknown'],
    ['says NaN', () => Number.NaN],
    ['says Infinity', () => Number.POSITIVE_INFINITY],
    ['says -1', () => -1],
    ["says '12'", () => '12'],
    ['says 12n', () => 12n],
    ['says null', () => null],
    ['says nothing', () => undefined],
    ['says an object', () => ({ messages: 0 })],
  ])(
    'F7 a probe that %s closes the gate after the time allowed, and it reopens by itself',
    async (_, ill) => {
      const changes: string[] = []
      const probe = told()
      const gate = await started({ probes: [probe], onChange: ({ state }) => changes.push(state) })
      probe.answer = ill
      await later(900)
      expect(gate.check()).toEqual(OPEN)
      await later(300)
      expect(gate.check()).toEqual(BUSY)
      expect(gate.readings()).toMatchObject([{ name: 'lag', value: 0, state: 'unknown' }])
      probe.answer = () => 100
      await later(2_200) // who hangs is asked again after ten deadlines
      expect(gate.check()).toEqual(OPEN)
      expect(changes).toEqual(['unknown', 'open'])
    },
  )

  it('F7 says what a probe threw, and how it lied', async () => {
    const errors: Error[] = []
    const probe = told()
    await started({ probes: [probe], onError: (error) => errors.push(error as Error) })
    probe.answer = () => Number.NaN
    await later(100)
    expect(errors[0]?.message).toBe('probe lag must give a number from 0 up, got NaN')
  })

  it('F7 a probe that was high and then unknown must still come down to the low mark', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    probe.answer = () => 6_000
    await later(100)
    probe.answer = () => 'unknown'
    await later(2_000)
    probe.answer = () => 4_000
    await later(100)
    expect(gate.readings()).toMatchObject([{ state: 'high' }])
    probe.answer = () => 2_000
    await later(100)
    expect(gate.check()).toEqual(OPEN)
  })

  it('F7 a probe that hangs is not asked at every interval, its signal aborts, and its late answer is not believed', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    let late: (lag: number) => void = () => {}
    let aborted = false
    probe.reads = 0
    probe.answer = (signal) => {
      signal.addEventListener('abort', () => {
        aborted = true
      })
      return new Promise((resolve) => {
        late = resolve
      })
    }
    await later(1_500)
    expect(probe.reads).toBe(1)
    expect(aborted).toBe(true)
    expect(gate.check()).toEqual(BUSY)
    late(0)
    await later(0)
    expect(gate.check()).toEqual(BUSY)
    probe.answer = () => 0
    await later(100)
    expect(gate.check()).toEqual(OPEN)
  })

  it('F7 a slow probe does not hold up the others', async () => {
    const [slow, quick] = [told({ name: 'slow' }), told({ name: 'quick' })]
    const gate = await started({ probes: [slow, quick], timeoutMs: 900 })
    slow.answer = () => new Promise(() => {})
    quick.answer = () => 9_000
    await later(150)
    expect(gate.check()).toEqual(BUSY)
  })

  it('F7 check reads memory only', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    const { reads } = probe
    for (let i = 0; i < 1_000; i++) gate.check()
    expect(probe.reads).toBe(reads)
  })

  it('F7 a gate that nobody started, or that was stopped, closes', async () => {
    const probe = told()
    const gate = new BackpressureGate({ probes: [probe], closeAfterUnknownMs: 1_000 })
    expect(gate.check()).toEqual(OPEN)
    await later(1_001)
    expect(gate.check()).toEqual(BUSY)
    expect(probe.reads).toBe(0)
    const stopped = await started({ probes: [probe] })
    await stopped.stop()
    await later(1_001)
    expect(stopped.check()).toEqual(BUSY)
  })

  it('F7 starts and stops as often as it is told, and reads no more afterwards', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    await gate.start()
    await later(100)
    expect(probe.reads).toBe(2)
    await Promise.all([gate.stop(), gate.stop()])
    await gate.stop()
    await gate[Symbol.asyncDispose]()
    await later(1_000)
    expect(probe.reads).toBe(2)
    await expect(gate.start()).rejects.toMatchObject({ code: 'STOPPED' })
  })

  it('F7 a stop does not wait for a probe that hangs beyond its deadline', async () => {
    const probe = told()
    const gate = await started({ probes: [probe] })
    probe.answer = () => new Promise(() => {})
    await later(100)
    let stopped = false
    void gate.stop().then(() => {
      stopped = true
    })
    await later(250)
    expect(stopped).toBe(true)
  })

  it('F7 callbacks that throw do not end the watch', async () => {
    const probe = told()
    const bang = () => {
      throw new Error('bang')
    }
    const gate = await started({ probes: [probe], onChange: bang, onError: bang })
    probe.answer = bang
    await later(1_500)
    probe.answer = () => 6_000
    await later(100)
    expect(gate.readings()).toMatchObject([{ state: 'high' }])
    probe.answer = () => 0
    await later(100)
    expect(gate.check()).toEqual(OPEN)
  })

  const fine = { name: 'lag', high: 2, low: 1, read: () => 0 }
  it.each([
    [{ probes: [] }, 'option probes must be 1 to 100 probes, got an array'],
    [{ probes: fine }, 'option probes'],
    [{ probes: [null] }, 'option probes[0] must be an object, got null'],
    [{ probes: [{ ...fine, name: '' }] }, 'option probes[0].name must be a string, got ""'],
    [{ probes: [fine, { ...fine, read: 1 }] }, 'option probes[1].read must be a function, got 1'],
    [{ probes: [{ ...fine, high: 0 }] }, 'option probes[0].high must be a number above 0, got 0'],
    [{ probes: [{ ...fine, high: Number.NaN }] }, 'option probes[0].high'],
    [{ probes: [{ ...fine, high: '5' }] }, 'option probes[0].high'],
    [
      { probes: [{ ...fine, low: 2 }] },
      'option probes[0].low must be from 0 to less than high (2)',
    ],
    [{ probes: [{ ...fine, low: -1 }] }, 'option probes[0].low'],
    [{ probes: [{ ...fine, low: undefined }] }, 'option probes[0].low'],
    [{ intervalMs: 0 }, 'option intervalMs must be a whole number from 1 to 60000, got 0'],
    [{ timeoutMs: 0.5 }, 'option timeoutMs'],
    [{ closeAfterUnknownMs: -1 }, 'option closeAfterUnknownMs'],
    [{ retryAfterMs: '1' }, 'option retryAfterMs'],
    [{ onChange: 1 }, 'option onChange must be a function, got 1'],
    [{ onError: {} }, 'option onError must be a function'],
  ] as const)('F7 refuses the options %j', (o, message) => {
    expect(() => new BackpressureGate({ probes: [fine], ...o } as never)).toThrowError(message)
  })
})
