import { FlashSaleError } from './errors.js'
import type { Background } from './ports.js'

/** Resolves after `ms`, at once when the signal aborts; never keeps the process alive by itself. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    timer.unref?.()
    signal.addEventListener('abort', done, { once: true })
  })
}

/** Settles like `work`, or as `late()` says once `ms` have passed; the work itself goes on. `late` is called for no other work. */
export function within<T, L>(work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  return new Promise((resolve, reject) => {
    let settled = false
    const giveUp = () => {
      if (settled) return
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }
    // After a stall of the event loop timers run before sockets are read: an answer that is there already comes first.
    const timer = setTimeout(() => setImmediate(giveUp), ms)
    work.then(resolve, reject).finally(() => {
      settled = true
      clearTimeout(timer)
    })
  })
}

/** Settles like `work`, or as `aborted()` says when the signal comes first; the work itself goes on. */
export function unlessAborted<T, L>(
  work: Promise<T>,
  signal: AbortSignal,
  aborted: () => L,
): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const abort = () => resolve(aborted())
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * Aborts when any of the signals does, until what is returned is called. Not AbortSignal.any: Node 20 keeps what it combines
 * with a signal that lives as long as the process.
 */
export function follow(
  abort: AbortController,
  ...signals: readonly (AbortSignal | undefined)[]
): () => void {
  const links = signals.map((signal) => {
    const pass = () => abort.abort(signal?.reason)
    if (signal?.aborted) pass()
    signal?.addEventListener('abort', pass, { once: true })
    return () => signal?.removeEventListener('abort', pass)
  })
  return () => {
    for (const unlink of links) unlink()
  }
}

/** Calls `work` again and again, `everyMs` apart, until stopped; a throw goes to `onError` and does not end it. */
export function every(o: {
  readonly everyMs: number
  readonly work: (signal: AbortSignal) => Promise<void>
  readonly onError: (error: unknown) => void
}): Background {
  const abort = new AbortController()
  let running: Promise<void> | null = null
  const loop = async () => {
    while (!abort.signal.aborted) {
      try {
        await o.work(abort.signal)
      } catch (error) {
        o.onError(error)
      }
      await pause(o.everyMs, abort.signal)
    }
  }
  const stop = async (s?: { readonly drainMs?: number }) => {
    abort.abort()
    if (running) await within(running, s?.drainMs ?? 5_000, () => undefined)
  }
  return {
    async start() {
      if (abort.signal.aborted)
        throw new FlashSaleError('STOPPED', 'cannot start again once stopped')
      running ??= loop()
    },
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
}
