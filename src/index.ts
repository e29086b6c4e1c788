export { type ErrorCode, FlashSaleError } from './core/errors.js'
export { parseBatch } from './core/message.js'
export type * from './core/order-book.js'
export { newOrderNo } from './core/order-no.js'
export type * from './core/outbox.js'
export type { DueMessage, OutboxHandler } from './core/outbox.js'
export type * from './core/payment.js'
export type * from './core/ports.js'
export type * from './core/queue.js'
export type * from './core/reconcile.js'
export type * from './core/saga.js'
export type {
  Probed,
  SagaContext,
  SagaDefinition,
  SagaStep,
  StepDone,
  StepRefused,
  StepResult,
} from './core/saga.js'
export { movesOf } from './core/standing.js'
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
export { OutboxDispatcher, type OutboxDispatcherOptions } from './outbox/outbox-dispatcher.js'
export type { CancelQuestion, CloseAnswer } from './payment/close.js'
export type { CreateQuestion, PaymentCreated } from './payment/create.js'
export type { PaymentKeeper, PaymentKeeperOptions } from './payment/keeper.js'
export type { NoticeAnswer } from './payment/notice.js'
export type { PaymentsOptions } from './payment/parts.js'
export { Payments } from './payment/payments.js'
export type { ChargebackNotice, RefundQuestion } from './payment/refunds.js'
export { FlashSale } from './pipeline/flash-sale.js'
export type { GuardianOptions, RedisGuardian } from './pipeline/guardian.js'
export type { Buyer, FlashSaleOptions, RiskQuestion, SubmitRequest } from './pipeline/options.js'
export { type OrderSagaParts, type OrderToUndo, orderSaga } from './pipeline/order-saga.js'
export { refundPaid } from './pipeline/refund-paid.js'
export type { Relay, RelayOptions } from './pipeline/relay.js'
export type { Worker, WorkerOptions } from './pipeline/worker.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue/memory-queue.js'
export type { MacFault, MessageKey } from './queue/message-mac.js'
export { type SignedQueueOptions, signedQueue } from './queue/signed-queue.js'
export { certifySale, type ExportParts, exportSale } from './reconcile/certificate-export.js'
export type { Law, Violation } from './reconcile/certificate-laws.js'
export type { SaleCertificate, SkuCertificate } from './reconcile/certificate-lines.js'
export { type Verification, verifyCertificate } from './reconcile/certificate-verify.js'
export type { FindingKind, Repair } from './reconcile/classify.js'
export type { Finding, Repaired, Report, SaleFindingKind, Triangle } from './reconcile/findings.js'
export { formatReport } from './reconcile/format-report.js'
export {
  type RebuildParts,
  type RebuildRequest,
  type Rebuilt,
  rebuildSale,
} from './reconcile/rebuild.js'
export { ReconcileRunner, type ReconcileRunnerOptions } from './reconcile/reconcile-runner.js'
export { type Sealed, type SealParts, sealSale } from './reconcile/seal.js'
export {
  type ReconcileProgress,
  type RepairOptions,
  TriangleReconciler,
  type TriangleReconcilerOptions,
} from './reconcile/triangle-reconciler.js'
export {
  CompensationSaga,
  type CompensationSagaOptions,
  type ResumeHow,
} from './saga/compensation-saga.js'
export type { Saga } from './saga/view.js'
export type { DeductRequest } from './stock/candidate.js'
export type { DeductOutcome } from './stock/deductions.js'
export type { StockBucketOptions } from './stock/options.js'
export type { OwedBatch } from './stock/owed.js'
export type { RebuildOptions } from './stock/rebuild.js'
export type { ScanPage } from './stock/scan.js'
export { StockBucket } from './stock/stock-bucket.js'
export type { WarmUpResult } from './stock/warm-up.js'
export type { IssueTerms, Verified } from './token/kind.js'
export type { TokenKey } from './token/signed.js'
export {
  type SignedTokenOptions,
  type StoredTokenOptions,
  TokenIssuer,
} from './token/token-issuer.js'
