export { type ErrorCode, FlashSaleError } from './core/errors.js'
export { parseBatch } from './core/message.js'
export { newOrderNo } from './core/order-no.js'
export type * from './core/ports.js'
export type * from './core/types.js'
export { ActivityGate, type ActivityGateOptions, type KnownActivity } from './gate/activity-gate.js'
export {
  BackpressureGate,
  type BackpressureGateOptions,
  type Probe,
  type ProbeReading,
} from './gate/backpressure-gate.js'
export { Bulkhead, type BulkheadOptions } from './gate/bulkhead.js'
export type { LimitRules, Rate } from './gate/limit-rules.js'
export {
  eventLoopDelay,
  type Marks,
  oldestUnconfirmed,
  type PoolLike,
  poolWaits,
  queueLag,
  stalledQueue,
} from './gate/probes.js'
export { type LimitCheck, RateLimiter, type RateLimiterOptions } from './gate/rate-limiter.js'
export { type LayerCounts, RefusalCounters } from './gate/refusal-counters.js'
export { SoldOutMark, type SoldOutMarkOptions } from './gate/sold-out-mark.js'
export {
  type ShownNumbers,
  type ShownStock,
  StockDisplay,
  type StockDisplayOptions,
} from './gate/stock-display.js'
export {
  IdempotencyGuard,
  type IdempotencyGuardOptions,
  type Once,
} from './idempotency/idempotency-guard.js'
export type { SqlRunner, SqlTransaction } from './idempotency/sql.js'
export { FlashSale } from './pipeline/flash-sale.js'
export type { Buyer, FlashSaleOptions, RiskQuestion, SubmitRequest } from './pipeline/options.js'
export type { Relay, RelayOptions } from './pipeline/relay.js'
export type { Worker, WorkerOptions } from './pipeline/worker.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue/memory-queue.js'
export type { MacFault, MessageKey } from './queue/message-mac.js'
export { type SignedQueueOptions, signedQueue } from './queue/signed-queue.js'
export type { Finding, Repaired, Report, Triangle } from './reconcile/findings.js'
export { formatReport } from './reconcile/format-report.js'
export {
  TriangleReconciler,
  type TriangleReconcilerOptions,
} from './reconcile/triangle-reconciler.js'
export type { DeductRequest } from './stock/candidate.js'
export type { DeductOutcome } from './stock/deductions.js'
export type { OwedBatch } from './stock/owed.js'
export type { ScanPage } from './stock/records.js'
export { StockBucket, type StockBucketOptions } from './stock/stock-bucket.js'
export type { WarmUpResult } from './stock/warm-up.js'
export type { IssueTerms, Verified } from './token/kind.js'
export type { TokenKey } from './token/signed.js'
export {
  type SignedTokenOptions,
  type StoredTokenOptions,
  TokenIssuer,
} from './token/token-issuer.js'
