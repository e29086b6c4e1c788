import { within } from '../core/background.js'
import { Coalescer } from '../core/coalescer.js'
import { FlashSaleError } from '../core/errors.js'
import type { Batch, Busy, Deducted, Delivered, Refusal, SkuRef, Unknown } from '../core/types.js'
import { skuKeys, tokenKey } from '../redis/keys.js'
import type { ScriptRunner } from '../redis/run-script.js'
import { deduct, SCRIPT_SET } from '../redis/scripts.generated.js'
import {
  batchMessage,
  bytesOf,
  type Candidate,
  candidateArgs,
  type DeductAnswer,
  newBatchId,
  readReply,
  sameRequest,
  wonBatch,
} from './deduct-batch.js'
import type { SeenSeq } from './seen-seq.js'

export type DeductOutcome = Deducted | Unknown | Refusal

export interface DeductionsOptions {
  readonly runner: ScriptRunner
  readonly seen: SeenSeq
  readonly deliver: 'nothing-owed' | ((batch: Batch, signal: AbortSignal) => Promise<Delivered>)
  /** Tells Redis what became of a batch. */
  readonly delivered: (batch: Batch, outcome: Delivered) => Promise<void>
  readonly maxBatch: number
  readonly maxBatchBytes: number
  readonly maxWaiting: number
  readonly maxWaitMs: number
  readonly maxDeliveries: number
  readonly deliverTimeoutMs: number
  readonly owedAfterMs: number
}

const FULL: Busy = { status: 'busy', cause: 'waiting-room', retryAfterMs: 1000 }

/** Batches of deductions, and their delivery to the queue: one lane for each activity, SKU and version. */
export class Deductions {
  private readonly lanes = new Map<string, Coalescer<Candidate, DeductOutcome>>()
  private readonly deliveries = new Set<Promise<unknown>>()
  private readonly waitingForSlot: (() => void)[] = []
  private stopped = false

  constructor(private readonly o: DeductionsOptions) {}

  submit(candidate: Candidate, signal?: AbortSignal): Promise<DeductOutcome> {
    if (this.stopped)
      return Promise.reject(new FlashSaleError('STOPPED', 'this StockBucket was stopped'))
    const { activityId, skuId, version } = candidate.reservation
    const name = `${activityId} ${skuId} ${version}`
    let lane = this.lanes.get(name)
    if (!lane) {
      this.dropIdleLanes()
      lane = this.openLane({ activityId, skuId }, version)
      this.lanes.set(name, lane)
    }
    return lane.submit(candidate, signal)
  }

  /** Takes no more; resolves once what was begun has settled, or after `drainMs`. */
  async stop(drainMs: number): Promise<void> {
    this.stopped = true
    const end = performance.now() + drainMs
    while (performance.now() < end) {
      const busy = [...this.lanes.values()].some((lane) => !lane.idle)
      if (!busy && this.deliveries.size === 0) return
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  private openLane(ref: SkuRef, version: string): Coalescer<Candidate, DeductOutcome> {
    return new Coalescer({
      keyOf: (c) => c.reservation.userId,
      equal: sameRequest,
      bytesOf,
      run: (candidates) => this.runBatch(ref, version, candidates),
      full: () => FULL,
      maxBatch: this.o.maxBatch,
      maxBytes: this.o.maxBatchBytes,
      maxWaiting: this.o.maxWaiting,
      maxWaitMs: this.o.maxWaitMs,
    })
  }

  /** Versions come and go; a lane with nothing in it holds no state. */
  private dropIdleLanes(): void {
    if (this.lanes.size < 256) return
    for (const [name, lane] of this.lanes) if (lane.idle) this.lanes.delete(name)
  }

  private async runBatch(
    ref: SkuRef,
    version: string,
    candidates: readonly Candidate[],
  ): Promise<readonly (DeductOutcome | Promise<DeductOutcome>)[]> {
    await this.deliverySlot()
    const keys = skuKeys(ref.activityId, ref.skuId)
    const owed = this.o.deliver !== 'nothing-owed'
    const batchId = newBatchId()
    const seen = this.o.seen.of(ref.activityId)
    const more = candidateArgs(candidates, (tokenId) => tokenKey(ref.activityId, tokenId))
    const args = {
      version,
      scripts: SCRIPT_SET,
      seenEpoch: seen.epoch,
      seenSeq: seen.seq,
      batchId: owed ? batchId : '',
      message: owed ? batchMessage(ref, batchId, candidates) : '',
      owedAfterMs: this.o.owedAfterMs,
      count: candidates.length,
    }
    try {
      const read = readReply(await this.o.runner.run(deduct, keys, args, more), candidates)
      if ('status' in read) return candidates.map(() => read)
      this.o.seen.learn(ref.activityId, read.epoch, read.seq)
      return this.answerAll(ref, batchId, candidates, read.answers)
    } catch (error) {
      // Not known is not failed: the unit may be held, the relay finds it.
      if (error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN')
        return candidates.map((c) => ({ status: 'unknown', orderNo: c.reservation.orderNo }))
      throw error
    }
  }

  /** Losers are answered now, winners when their batch was delivered. */
  private answerAll(
    ref: SkuRef,
    batchId: string,
    candidates: readonly Candidate[],
    answers: readonly DeductAnswer[],
  ): readonly (DeductOutcome | Promise<DeductOutcome>)[] {
    const batch =
      this.o.deliver === 'nothing-owed' ? null : wonBatch(ref, batchId, candidates, answers)
    const closed = batch ? this.track(this.deliverBatch(batch)) : null
    return answers.map((answer, i): DeductOutcome | Promise<DeductOutcome> => {
      if (answer instanceof FlashSaleError) return Promise.reject(answer)
      const orderNo = candidates[i]?.reservation.orderNo
      if (!closed || answer.status !== 'reserved' || answer.reservation.orderNo !== orderNo)
        return answer
      return closed.then((numbers) => (numbers.has(orderNo) ? { status: 'try-again' } : answer))
    })
  }

  /** The numbers that the database closed because the queue refused them. Never rejects: a batch not delivered stays owed. */
  private async deliverBatch(batch: Batch): Promise<ReadonlySet<string>> {
    const abort = AbortSignal.timeout(this.o.deliverTimeoutMs)
    let outcome: Delivered = 'unknown'
    try {
      const deliver = this.o.deliver as Exclude<DeductionsOptions['deliver'], string>
      outcome = await within(
        deliver(batch, abort),
        this.o.deliverTimeoutMs,
        () => 'unknown' as const,
      )
    } catch {
      // stays owed
    }
    if (typeof outcome === 'object') {
      await this.o.delivered(batch, outcome).catch(() => {})
      return new Set(outcome.closed)
    }
    // Nobody waits for the strike: without it the relay sends once more, and consumers do not mind.
    if (outcome !== 'unknown') void this.track(this.o.delivered(batch, outcome).catch(() => {}))
    return NONE
  }

  private track<T>(work: Promise<T>): Promise<T> {
    this.deliveries.add(work)
    const done = () => {
      this.deliveries.delete(work)
      this.waitingForSlot.shift()?.()
    }
    work.then(done, done)
    return work
  }

  /** While the queue is slow the lanes wait here, then callers hear `busy`: reservations are never taken faster than sent. */
  private async deliverySlot(): Promise<void> {
    while (this.deliveries.size >= this.o.maxDeliveries)
      await new Promise<void>((resolve) => this.waitingForSlot.push(resolve))
  }
}

const NONE: ReadonlySet<string> = new Set()
