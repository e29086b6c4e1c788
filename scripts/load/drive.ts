import { type Latency, latencyOf } from './step.js'

const PROGRESS_MS = 2_000

/** Tells every two seconds how far a long step has come. */
export function progress(log: (line: string) => void, what: string, of: number) {
  let next = 0
  return (done: number) => {
    next ||= performance.now() + PROGRESS_MS // from the first answer on
    if (performance.now() < next) return
    next = performance.now() + PROGRESS_MS
    log(`  ${what}: ${done} of ${of}`)
  }
}

/** `callers` at once, each with its next click as soon as the one before was answered. */
export async function drive(o: {
  readonly requests: number
  readonly callers: number
  readonly what: string
  readonly log: (line: string) => void
  readonly click: (i: number) => Promise<void>
}): Promise<{ readonly perSecond: number; readonly latencyMs: Latency }> {
  const waits: number[] = []
  const tell = progress(o.log, o.what, o.requests)
  let next = 0
  const caller = async () => {
    while (next < o.requests) {
      const i = next++
      const since = performance.now()
      await o.click(i)
      waits.push(performance.now() - since)
      tell(waits.length)
      // As a network would: what is refused from memory must not starve the sockets.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: Math.min(o.callers, o.requests) }, caller))
  const seconds = (performance.now() - started) / 1_000
  return { perSecond: Math.round(o.requests / seconds), latencyMs: latencyOf(waits) }
}
