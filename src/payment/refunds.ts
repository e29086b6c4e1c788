import * as check from '../core/check.js'
import type { ChannelRefund, RefundDecided, RefundJob } from '../core/payment.js'
import { storable } from '../core/storable.js'
import { BACKOFF_MS, MAX_TRIES } from '../core/tries.js'
import type { Parts } from './parts.js'

export interface RefundQuestion {
  readonly paymentId: string
  /** The caller's own id of it: the same id again is the same refund. */
  readonly refundId: string
  /** Whole minor units of the payment's currency. */
  readonly amountMinor: number
  readonly reason: string
}

export interface ChargebackNotice {
  readonly channel: string
  readonly tradeNo: string
  /** The channel's own id of it. */
  readonly chargebackId: string
  readonly amountMinor: number
}

/** A channel that says "on its way" is asked again in so many ms, for as long as it says so. */
const PENDING_MS = 600_000

/** The decision first, durable; then the channel is asked once at once, and the keeper goes on if that was not the end. */
export async function refund(parts: Parts, q: RefundQuestion): Promise<RefundDecided> {
  check.object(q, 'refund')
  const { paymentId, refundId, amountMinor, reason } = q
  const decided = await parts.book.decideRefund({
    paymentId,
    refundId,
    amountMinor,
    reason,
    made: false,
  })
  if (decided.status !== 'refunding') return decided
  const { leaseMs } = parts
  const takenAt = performance.now()
  const [job] = await parts.book.takeRefunds({ limit: 1, leaseMs, refundId })
  return job ? { ...decided, status: await makeRefund(parts, job, takenAt) } : decided
}

/** Money that the channel has taken back already; beyond what is left, somebody must look. */
export async function chargeback(parts: Parts, n: ChargebackNotice): Promise<RefundDecided> {
  check.object(n, 'chargeback')
  const { channel } = parts.provider(n.channel)
  const tradeNo = check.id(n.tradeNo, 'tradeNo')
  const refundId = check.id(n.chargebackId, 'chargebackId')
  const amountMinor = check.int(n.amountMinor, 'amountMinor', 1, Number.MAX_SAFE_INTEGER)
  const payment = await parts.book.findTrade(channel, tradeNo)
  const decided: RefundDecided = payment
    ? await parts.book.decideRefund({
        refundId,
        paymentId: payment.paymentId,
        amountMinor,
        reason: 'chargeback',
        made: true,
      })
    : { status: 'not-found' }
  if (decided.status === 'refused' || decided.status === 'not-found') {
    const detail = { channel, tradeNo, chargebackId: refundId, amountMinor, decided }
    await parts.orders.addManualTask({ kind: 'chargeback', ref: `${channel}:${refundId}`, detail })
    parts.alert('chargeback-beyond', detail)
  }
  return decided
}

/** Asks the channel; looks first if anybody may have asked before. Returns how the refund stands. */
export async function makeRefund(
  parts: Parts,
  job: RefundJob,
  takenAt: number,
): Promise<'refunding' | 'refunded' | 'parked'> {
  const { book } = parts
  const { tries, channel, channelPaymentId, ...rest } = job
  const request = { ...rest, paymentId: channelPaymentId }
  const afterMs = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length) - 1] as number
  // A try that was none does not bring it nearer to a person.
  if (parts.isSilent(channel)) {
    await book.endRefund(job, { status: 'again', afterMs, counted: false })
    return 'refunding'
  }
  const looked: ChannelRefund | { readonly status: 'none' } | 'unknown' =
    tries > 1
      ? await parts.ask(channel, ['none', 'pending', 'refunded', 'refused'], (provider, o) =>
          provider.queryRefund(request, o),
        )
      : { status: 'none' }
  if (parts.isLate(takenAt)) return 'refunding'
  const answer =
    looked !== 'unknown' && looked.status === 'none'
      ? await parts.ask(channel, ['pending', 'refunded', 'refused'], (provider, o) =>
          provider.refund(request, o),
        )
      : looked
  const park = async (reason: string) => {
    // Somebody else has it by now, or it is made.
    if (!(await book.endRefund(job, { status: 'parked', reason }))) return 'refunding' as const
    const { refundId, paymentId } = job
    parts.alert('refund-parked', { refundId, paymentId, channel, reason })
    return 'parked' as const
  }
  if (answer === 'unknown') {
    if (tries >= MAX_TRIES) return park(`no answer in ${MAX_TRIES} tries`)
    await book.endRefund(job, { status: 'again', afterMs, counted: true })
    return 'refunding'
  }
  switch (answer.status) {
    case 'refunded':
      await book.endRefund(job, { status: 'refunded' })
      return 'refunded'
    case 'pending':
      await book.endRefund(job, { status: 'again', afterMs: PENDING_MS, counted: false })
      return 'refunding'
    case 'refused':
      return park(`refused: ${storable(String(answer.reason), 200)}`)
    default:
      return answer satisfies never
  }
}
