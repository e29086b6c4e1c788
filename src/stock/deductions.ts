import { within } from '../core/background.js'
import { Coalescer } from '../core/coalescer.js'
import { FlashSaleError } from '../core/errors.js'
import type {
  Batch,
  Busy,
  Deducted,
  Delivered,
  Refusal,
  Reservation,
  SkuRef,
  Unknown,
} from '../core/types.js'
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
import { checkDelivered } from './owed.js'
import type { SeenSeq } from './seen-seq.js'
import { Slots } from './slots.js'

export type DeductOutcome = Deducted | Unknown | Refusal

export interface DeductionsOptions {
  readonly runner: ScriptRunner
  readonly seen: SeenSeq
  readonly deliver: 'nothing-owed' | ((batch: Batch, signal: AbortSignal) => Promise<Delivered>)
  /** Told of what went wrong where no caller hears of it; must not throw. */
  readonly onError: (error: unknown) => void
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

/** What a message has beside its reservations, at most: three ids of 64 characters that may need escaping. */
const ENVELOPE_BYTES = 512

type Lane = Coalescer<Candidate, DeductOutcome>

const FULL: Busy = { status: 'busy', cause: 'waiting-room', retryAfterMs: 1000 }

/** Batches of deductions, and their delivery to the queue: one lane for each activity, SKU and version. */
export class Deductions {
  private readonly lanes = new Map<string, Lane>()
  /** What a stop waits for: deliveries, and the strikes behind them. */
  private readonly underWay = new Set<Promise<unknown>>()
  /** While the queue is slow the lanes wait for one, then callers hear `busy`: units never leave faster than messages. */
  private readonly slots: Slots
  private lastLane: (SkuRef & { readonly version: string; readonly lane: Lane }) | null = null
  private stopped = false

  constructor(private readonly o: DeductionsOptions) {
    this.slots = new Slots(o.maxDeliveries)
  }

  submit(candidate: Candidate, signal?: AbortSignal): Promise<DeductOutcome> {
    if (this.stopped)
      return Promise.reject(new FlashSaleError('STOPPED', 'this StockBucket was stopped'))
    return this.laneOf(candidate.reservation).submit(candidate, signal)
  }

  private laneOf({ activityId, skuId, version }: Reservation): Lane {
    // Nearly all calls of a crowd are for one thing; comparing is cheaper than making a name and looking it up.
    const last = this.lastLane
    if (last?.version === version && last.skuId === skuId && last.activityId === activityId)
      return last.lane
    const name = `${activityId} ${skuId} ${version}`
    let lane = this.lanes.get(name)
    if (!lane) {
      this.dropIdleLanes()
      lane = this.openLane({ activityId, skuId }, version)
      this.lanes.set(name, lane)
    }
    this.lastLane = { activityId, skuId, version, lane }
    return lane
  }

  /** Takes no more; resolves once what was begun has settled, or after `drainMs`. */
  async stop(drainMs: number): Promise<void> {
    this.stopped = true
    const end = performance.now() + drainMs
    while (performance.now() < end) {
      const busy = [...this.lanes.values()].some((lane) => !lane.idle)
      if (!busy && this.underWay.size === 0) return
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  private openLane(ref: SkuRef, version: string): Lane {
    return new Coalescer({
      keyOf: (c) => c.reservation.userId,
      equal: sameRequest,
      bytesOf,
      turn: () => this.slots.take(),
      run: (candidates, endTurn) => this.runBatch(ref, version, candidates, endTurn),
      full: () => FULL,
      maxBatch: this.o.maxBatch,
      maxBytes: this.o.maxBatchBytes - ENVELOPE_BYTES,
      maxWaiting: this.o.maxWaiting,
      maxWaitMs: this.o.maxWaitMs,
    })
  }

  /** Versions come and go; a lane with nothing in it holds no state. */
  private dropIdleLanes(): void {
    if (this.lanes.size < 256) return
    for (const [name, lane] of this.lanes) if (lane.idle) this.lanes.delete(name)
    this.lastLane = null
  }

  private async runBatch(
    ref: SkuRef,
    version: string,
    candidates: readonly Candidate[],
    endTurn: () => void,
  ): Promise<readonly (DeductOutcome | Promise<DeductOutcome>)[]> {
    let delivery: Promise<ReadonlySet<string>> | null = null
    try {
      const { answers, batch } = await this.take(ref, version, candidates)
      if (batch) delivery = this.track(this.deliverBatch(batch))
      return answers.map((answer) => settled(answer, delivery))
    } catch (error) {
      // Not known is not failed: the unit may be held, the relay finds it.
      if (error instanceof FlashSaleError && error.code === 'OUTCOME_UNKNOWN')
        return candidates.map((c) => ({ status: 'unknown', orderNo: c.reservation.orderNo }))
      throw error
    } finally {
      if (delivery) void delivery.then(endTurn)
      else endTurn()
    }
  }

  /** One script: an answer for each candidate, and the batch of those who took units. */
  private async take(
    ref: SkuRef,
    version: string,
    candidates: readonly Candidate[],
  ): Promise<{ readonly answers: readonly DeductAnswer[]; readonly batch: Batch | null }> {
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
      message: owed ? batchMessage(ref, version, batchId, candidates) : '',
      owedAfterMs: this.o.owedAfterMs,
      count: candidates.length,
    }
    const read = readReply(await this.o.runner.run(deduct, keys, args, more), candidates)
    if ('status' in read) return { answers: candidates.map(() => read), batch: null }
    this.o.seen.learn(ref.activityId, read.epoch, read.seq)
    return { answers: read.answers, batch: owed ? wonBatch(ref, batchId, read.answers) : null }
  }

  /** The numbers that the database closed because the queue refused them. Never rejects: a batch not delivered stays owed. */
  private async deliverBatch(batch: Batch): Promise<ReadonlySet<string>> {
    const outcome = await this.outcomeOf(batch)
    if (typeof outcome === 'object') {
      await this.o.delivered(batch, outcome).catch(this.o.onError)
      return new Set(outcome.closed)
    }
    // Nobody waits for the strike: without it the relay sends once more, and consumers do not mind.
    if (outcome !== 'unknown')
      void this.track(this.o.delivered(batch, outcome).catch(this.o.onError))
    return NONE
  }

  private async outcomeOf(batch: Batch): Promise<Delivered> {
    const { deliver, deliverTimeoutMs: limit } = this.o
    if (deliver === 'nothing-owed') return 'unknown'
    try {
      const delivery = deliver(batch, AbortSignal.timeout(limit))
      return checkDelivered(await within(delivery, limit, () => 'unknown' as const))
    } catch (error) {
      this.o.onError(error)
      return 'unknown'
    }
  }

  private track<T>(work: Promise<T>): Promise<T> {
    this.underWay.add(work)
    const done = () => this.underWay.delete(work)
    work.then(done, done)
    return work
  }
}

/** Losers are answered now, winners when their batch was delivered. */
function settled(
  answer: DeductAnswer,
  delivery: Promise<ReadonlySet<string>> | null,
): DeductOutcome | Promise<DeductOutcome> {
  if (answer instanceof FlashSaleError) return Promise.reject(answer)
  if (!delivery || answer.status !== 'reserved' || answer.replayed) return answer
  const { orderNo } = answer.reservation
  return delivery.then((closed) => (closed.has(orderNo) ? { status: 'try-again' } : answer))
}

const NONE: ReadonlySet<string> = new Set()
