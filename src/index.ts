export { type ErrorCode, FlashSaleError } from './core/errors.js'
export { parseBatch } from './core/message.js'
export { newOrderNo } from './core/order-no.js'
export type * from './core/ports.js'
export type * from './core/types.js'
export { ActivityGate, type ActivityGateOptions, type KnownActivity } from './gate/activity-gate.js'
export {
  IdempotencyGuard,
  type IdempotencyGuardOptions,
  type Once,
} from './idempotency/idempotency-guard.js'
export type { SqlRunner, SqlTransaction } from './idempotency/sql.js'
export {
  type Buyer,
  FlashSale,
  type FlashSaleOptions,
  type RiskQuestion,
  type SubmitRequest,
} from './pipeline/flash-sale.js'
export type { Relay, RelayOptions } from './pipeline/relay.js'
export type { Worker, WorkerOptions } from './pipeline/worker.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue/memory-queue.js'
export type { MacFault, MessageKey } from './queue/message-mac.js'
export { type SignedQueueOptions, signedQueue } from './queue/signed-queue.js'
export { formatReport } from './reconcile/format-report.js'
export {
  type Finding,
  type Repaired,
  type Report,
  type Triangle,
  TriangleReconciler,
  type TriangleReconcilerOptions,
} from './reconcile/triangle-reconciler.js'
export type { DeductOutcome } from './stock/deductions.js'
export type { OwedBatch } from './stock/owed.js'
export type { ScanPage } from './stock/records.js'
export {
  type DeductRequest,
  StockBucket,
  type StockBucketOptions,
} from './stock/stock-bucket.js'
export type { WarmUpResult } from './stock/warm-up.js'
export type { IssueTerms, Verified } from './token/kind.js'
export type { TokenKey } from './token/signed.js'
export {
  type SignedTokenOptions,
  type StoredTokenOptions,
  TokenIssuer,
} from './token/token-issuer.js'
