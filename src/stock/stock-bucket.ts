import * as check from '../core/check.js'
import type { OrderBook } from '../core/order-book.js'
import type { Fence, RedisStanding } from '../core/reconcile.js'
import type {
  Activity,
  Batch,
  Delivered,
  Move,
  Moved,
  RebuiltStock,
  ReservationRecord,
  SaleNumbers,
  SaleState,
  SkuRef,
} from '../core/types.js'
import { skuKeys, tagKeys } from '../redis/keys.js'
import { ScriptRunner } from '../redis/run-script.js'
import { control, topUp } from '../redis/scripts.generated.js'
import { candidate, type DeductRequest } from './candidate.js'
import { Deductions, type DeductOutcome } from './deductions.js'
import { moveAll } from './moves.js'
import { type StockBucketOptions, settingsOf } from './options.js'
import { checkDelivered, type OverdueBatch, type OwedBatch, OwedBatches } from './owed.js'
import { type RebuildOptions, rebuild } from './rebuild.js'
import { look } from './rebuild-look.js'
import { readableRecords } from './records.js'
import { saleNumbers } from './sale-numbers.js'
import { appliedTopUps, type ScanPage, scanBuyers, scanRecords, scanTombstones } from './scan.js'
import { SeenSeq } from './seen-seq.js'
import { type ExpectedNumbers, type WarmUpResult, warmUp } from './warm-up.js'
import { warmed } from './warmed.js'

/**
 * Stock of flash sales in Redis: every unit that leaves, leaves through one script.
 *
 * What a buyer can be told is a `status`; a broken Redis is a {@link FlashSaleError}. All methods check their input first
 * and then throw `BAD_INPUT` with nothing written. Methods other than `deduct` throw `OUTCOME_UNKNOWN` when no answer
 * came: all of them may be called again with the same arguments.
 */
export class StockBucket {
  private readonly runner: ScriptRunner
  private readonly seen = new SeenSeq()
  private readonly deductions: Deductions
  private readonly owed: OwedBatches
  private stopping: Promise<void> | null = null

  constructor(o: StockBucketOptions) {
    const { redis, timeoutMs, closeAfterMs, onError, ...deductions } = settingsOf(o)
    this.runner = new ScriptRunner(redis, timeoutMs)
    this.owed = new OwedBatches(this.runner, closeAfterMs, onError)
    this.deductions = new Deductions({
      ...deductions,
      onError,
      runner: this.runner,
      seen: this.seen,
      delivered: (batch, outcome) => this.owed.settle(batch, outcome),
    })
  }

  /**
   * Creates the activity's keys, stopped, or compares those that exist with the activity and with `expected`, the
   * database's numbers. Never resets a stock that was touched: to change S, use {@link topUp}.
   *
   * @param expected with the `topUps` that are in the total, as `OrderBook.prepare` returns them: without, one of them that is
   *   repeated adds its units a second time
   */
  async warmUp(
    activity: Activity,
    expected: readonly ExpectedNumbers[],
    tokenEpoch = 1,
  ): Promise<WarmUpResult> {
    const checked = check.activity(activity)
    return warmUp(this.runner, checked, expected, check.int(tokenEpoch, 'tokenEpoch', 0, 1e12))
  }

  /**
   * Replaces all keys of an activity by what the database says, in one step, under a new epoch, stopped. Reservations
   * without an order row are forgotten: what is still on its way is adopted or closed. Stop the durable row first, and
   * compare afterwards; `rebuildSale` does both.
   *
   * @throws FlashSaleError `BAD_INPUT` also for an SKU without a stock row; what `orders` throws. Nothing was changed,
   *   unless it is `OUTCOME_UNKNOWN`.
   */
  async rebuild(
    activity: Activity,
    orders: Pick<OrderBook, 'snapshot' | 'topUps'>,
    o: RebuildOptions,
  ): Promise<RebuiltStock> {
    const checked = check.activity(activity)
    check.object(orders, 'orders')
    check.object(o, 'options')
    const seen = this.seen.of(checked.activityId).epoch
    const rebuilt = await rebuild(this.runner, checked, orders, {
      tokenEpoch: check.int(o.tokenEpoch, 'tokenEpoch', 0, 1e12),
      above: Math.max(seen, check.int(o.above ?? 0, 'above', 0, 1e15)),
      revision: check.int(o.revision ?? 0, 'revision', 0, Number.MAX_SAFE_INTEGER),
      ...(o.signal ? { signal: o.signal } : {}),
    })
    if (rebuilt.status === 'rebuilt') this.seen.learn(checked.activityId, rebuilt.epoch, 0)
    return rebuilt
  }

  /** How Redis stands with an activity; `rewound` when it knows less than this process has seen, or was told to {@link expect}. */
  async standing(activity: Activity): Promise<RedisStanding> {
    const checked = check.activity(activity)
    // Before Redis is asked: what is heard meanwhile may be newer than its answer.
    const seen = { ...this.seen.of(checked.activityId) }
    const standing = await look(this.runner, checked)
    if (standing.status !== 'warm') return standing
    const { epoch, seq } = standing
    if (epoch < seen.epoch || (epoch === seen.epoch && seq < seen.seq))
      return { ...standing, status: 'rewound' }
    this.seen.learn(checked.activityId, epoch, seq)
    return standing
  }

  /** No deduction from a Redis that knows less than this: it answers `rewound`. Memory only; a lower fence changes nothing. */
  expect(activityId: string, fence: Fence): void {
    const id = check.keyId(activityId, 'activityId')
    check.object(fence, 'fence')
    const epoch = check.int(fence.epoch, 'fence.epoch', 0, 1e15)
    this.seen.learn(id, epoch, check.int(fence.seq, 'fence.seq', 0, 1e15))
  }

  /**
   * Takes units for a buyer and settles once the batch was delivered to the queue.
   *
   * @throws FlashSaleError `BAD_INPUT`; `REDIS_REFUSED` (nothing was taken); `CORRUPT` (nothing was taken); `STOPPED`
   */
  deduct(request: DeductRequest): Promise<DeductOutcome> {
    // Not async: at 80,000 calls a second one promise less for each is 5 % of the process.
    try {
      return this.deductions.submit(candidate(request), request.signal)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Moves reservations along, each once per order number, and says what happened to each, in order. */
  async move(moves: readonly Move[]): Promise<readonly Moved[]> {
    return moveAll(this.runner, moves)
  }

  /**
   * Adds units (or, negative, withdraws them) once per operation id. Change the database first.
   *
   * @throws FlashSaleError `BAD_INPUT` also when it would withdraw more than S; nothing was written
   */
  async topUp(ref: SkuRef, units: number, operationId: string): Promise<SaleNumbers> {
    const { activityId, skuId } = check.skuRef(ref)
    const args = {
      units: check.int(units, 'units', -check.MAX_UNITS, check.MAX_UNITS),
      operationId: check.id(operationId, 'operationId'),
      maxUnits: check.MAX_UNITS,
    }
    if (units === 0) check.fail('BAD_INPUT', 'units', 'other than 0', units)
    const reply = await this.runner.run(topUp, skuKeys(activityId, skuId), args)
    if (warmed(reply, activityId)[0] === 0)
      check.fail('BAD_INPUT', 'units', `such that S stays within 0 and ${check.MAX_UNITS}`, units)
    return this.numbers(ref)
  }

  /**
   * Opens or stops admission in Redis. The durable row comes first (see `FlashSale.control`), and its `revision` goes along:
   * an act that reaches Redis after a later one changes nothing, and is not acknowledged. Without it the act holds whatever
   * was told before.
   */
  async control(
    activityId: string,
    to: SaleState,
    revision?: number,
  ): Promise<{ readonly acknowledged: number; readonly of: number }> {
    const keys = tagKeys(check.keyId(activityId, 'activityId'))
    const state = check.oneOf(to, 'to', ['open', 'stopped'])
    const told =
      revision === undefined
        ? ''
        : String(check.int(revision, 'revision', 0, Number.MAX_SAFE_INTEGER))
    const args = { state, tokenEpoch: 0, revision: told }
    const [code] = await this.runner.run(control, keys, args)
    return { acknowledged: code === 1 ? 1 : 0, of: 1 }
  }

  /** Revokes the tokens issued under a smaller epoch. A smaller epoch than the stored one changes nothing. */
  async revokeTokens(activityId: string, tokenEpoch: number): Promise<void> {
    const keys = tagKeys(check.keyId(activityId, 'activityId'))
    const args = {
      ...{ state: '', revision: '' },
      tokenEpoch: check.int(tokenEpoch, 'tokenEpoch', 1, 1e12),
    }
    warmed(await this.runner.run(control, keys, args), activityId)
  }

  /** Batches due to be sent again or closed, each leased to the caller for `leaseMs`. For a relay. */
  async takeOwed(
    activityId: string,
    o: { readonly leaseMs: number; readonly limit: number },
  ): Promise<readonly OwedBatch[]> {
    check.object(o, 'options')
    return this.owed.take(check.keyId(activityId, 'activityId'), {
      leaseMs: check.int(o.leaseMs, 'leaseMs', 1, 3_600_000),
      limit: check.int(o.limit, 'limit', 1, 1_000),
    })
  }

  /** Reports what became of a batch; may be repeated. */
  async delivered(batch: Batch, outcome: Delivered): Promise<void> {
    check.object(batch, 'batch')
    check.keyId(batch.activityId, 'batch.activityId')
    check.id(batch.batchId, 'batch.batchId')
    check.array(batch.reservations, 'batch.reservations')
    await this.owed.settle(batch, checkDelivered(outcome))
  }

  /** What Redis remembers of a buyer, `none` if nothing. */
  async reservation(
    ref: SkuRef,
    userId: string | bigint,
  ): Promise<(ReservationRecord & { readonly reason: string | null }) | 'none' | 'not-warmed'> {
    const asked = [{ userId: check.userIdOf(userId), orderNo: '' }]
    const found = await readableRecords(this.runner, check.skuRef(ref), asked)
    return found === 'not-warmed' ? found : (found[0] ?? 'none')
  }

  /** Reservations as Redis remembers them, in the order asked; null for a number that it does not know of that buyer. */
  async reservations(
    ref: SkuRef,
    numbers: readonly { readonly userId: string; readonly orderNo: string }[],
  ): Promise<readonly (ReservationRecord | null)[] | 'not-warmed'> {
    check.array(numbers, 'numbers')
    const asked = numbers.map((n, i) => {
      check.object(n, `numbers[${i}]`)
      return { userId: check.userIdOf(n.userId), orderNo: check.id(n.orderNo, 'orderNo') }
    })
    return readableRecords(this.runner, check.skuRef(ref), asked)
  }

  /** A page of all reservations of an SKU; begin with cursor `'0'`, end when `next` is null. A row may come twice. */
  async scan(ref: SkuRef, cursor: string): Promise<ScanPage> {
    return scanRecords(this.runner, check.skuRef(ref), cursorOf(cursor))
  }

  /** A page of the numbers whose units went back, of all SKUs of the activity; pages as {@link scan}'s. */
  async tombstones(
    ref: SkuRef,
    cursor: string,
  ): Promise<{ readonly numbers: readonly string[]; readonly next: string | null }> {
    return scanTombstones(this.runner, check.skuRef(ref), cursorOf(cursor))
  }

  /** The top-ups that are in an SKU's stock. */
  async topUps(
    ref: SkuRef,
  ): Promise<readonly { readonly operationId: string; readonly units: number }[]> {
    return appliedTopUps(this.runner, check.skuRef(ref))
  }

  /** Batches that should have been settled, or closed after `closeAfterMs`, so long ago. Claims nothing. */
  async overdue(
    activityId: string,
    o: { readonly lateMs: number },
  ): Promise<readonly OverdueBatch[]> {
    check.object(o, 'options')
    const lateMs = check.int(o.lateMs, 'lateMs', 0, 86_400_000)
    return this.owed.overdue(check.keyId(activityId, 'activityId'), lateMs)
  }

  /**
   * Changes whenever this process has heard that units of the activity were taken: text to compare, from memory. What was
   * read of it is complete as long as this is the same.
   */
  lastSeen(activityId: string): string {
    const { epoch, seq } = this.seen.of(check.keyId(activityId, 'activityId'))
    return `${epoch}:${seq}`
  }

  /** Everybody whose reservation of an SKU is not released; null when they are more than `limit`. */
  async buyers(ref: SkuRef, limit: number): Promise<ReadonlySet<string> | null> {
    check.int(limit, 'limit', 1, 10_000_000)
    return scanBuyers(this.runner, check.skuRef(ref), limit)
  }

  /** @throws FlashSaleError `NOT_WARMED` when keys are missing or not of one piece, `CORRUPT` when they do not add up */
  async numbers(ref: SkuRef): Promise<SaleNumbers> {
    return saleNumbers(this.runner, check.skuRef(ref))
  }

  /** Takes no more deductions and waits for those begun, at most `drainMs` (default 5,000). Idempotent. */
  async stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    check.object(o, 'options')
    const drainMs = check.option(o.drainMs, 'drainMs', 5_000, 0, 600_000)
    this.stopping ??= this.deductions.stop(drainMs)
    return this.stopping
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

function cursorOf(cursor: string): string {
  if (typeof cursor === 'string' && /^\d{1,20}$/.test(cursor)) return cursor
  return check.fail('BAD_INPUT', 'cursor', "'0' or the next of the page before", cursor)
}
