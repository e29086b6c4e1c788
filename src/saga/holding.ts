import { follow, pause, within } from '../core/background.js'
import type { SagaHold, SagaStore } from '../core/saga.js'

/**
 * Runs `work` and renews the lease meanwhile; no renewal is on its way any more when it settles. The signal aborts
 * when another may have taken the saga, when `limitMs` have passed (then it settles as `late` says, and the work goes
 * on unheard), and with `cut`.
 */
export async function holding<T>(
  o: {
    readonly store: Pick<SagaStore<never>, 'renew'>
    readonly hold: SagaHold
    readonly leaseMs: number
    readonly limitMs: number
    readonly cut: AbortSignal
  },
  work: (signal: AbortSignal) => Promise<T>,
  late: () => T,
): Promise<T> {
  const abort = new AbortController()
  const ended = new AbortController()
  const unfollow = follow(abort, o.cut)
  const renewals = renew(o, ended.signal, () => abort.abort(new Error('the lease is lost')))
  try {
    return await within(work(abort.signal), o.limitMs, () => {
      abort.abort(new Error(`more than ${o.limitMs} ms`))
      return late()
    })
  } finally {
    unfollow()
    ended.abort()
    await renewals
  }
}

async function renew(
  o: {
    readonly store: Pick<SagaStore<never>, 'renew'>
    readonly hold: SagaHold
    readonly leaseMs: number
  },
  ended: AbortSignal,
  lost: () => void,
): Promise<void> {
  const expireIn = (ms: number) => setTimeout(lost, ms)
  let expiry = expireIn(o.leaseMs)
  for (;;) {
    await pause(o.leaseMs / 3, ended)
    if (ended.aborted) break
    const since = performance.now()
    // While the database is away the lease may still be ours, until it has run out.
    const kept = await o.store.renew(o.hold, o.leaseMs).catch(() => null)
    if (kept === false) lost()
    if (kept !== true) continue
    clearTimeout(expiry)
    expiry = expireIn(o.leaseMs - (performance.now() - since))
  }
  clearTimeout(expiry)
}
