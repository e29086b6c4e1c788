export {
  type ActivityControlUnderTest,
  type ActivityStoreUnderTest,
  activityControlSuite,
  activityStoreSuite,
} from './activity-suites.js'
export type { ConformanceCase } from './conformance.js'
export { ManualClock } from './manual-clock.js'
export {
  type MemoryAct,
  MemoryActivityControl,
  MemoryActivityStore,
} from './memory-activities.js'
export { MemoryOrderBook, type MemoryOrderBookOptions } from './memory-order-book.js'
export {
  type OrderBookFeature,
  type OrderBookUnderTest,
  orderBookSuite,
} from './order-book-suite.js'
export {
  type HooksLike,
  type OrderHooksFeature,
  type OrderHooksUnderTest,
  type OrderSketch,
  type OrderToBook,
  orderHooksSuite,
} from './order-hooks-suite.js'
export {
  type OutboxHandlerFeature,
  type OutboxHandlerUnderTest,
  outboxHandlerSuite,
} from './outbox-handler-suite.js'
export {
  type PaymentBooks,
  type PaymentHooksFeature,
  type PaymentHooksLike,
  type PaymentHooksUnderTest,
  type PaymentToBook,
  paymentHooksSuite,
} from './payment-hooks-suite.js'
export {
  type ChannelFault,
  type ChannelMethod,
  type PaymentProviderFeature,
  type PaymentProviderUnderTest,
  paymentProviderSuite,
  type RawCallback,
} from './payment-provider-suite.js'
export {
  type QueueCase,
  type QueueFeature,
  type QueueUnderTest,
  queueSuite,
} from './queue-suite.js'
export { RecordedEvents } from './recorded-events.js'
export {
  type SagaStepsFeature,
  type SagaStepsUnderTest,
  type SagaUnderTest,
  sagaStepsSuite,
} from './saga-steps-suite.js'
export {
  type SandboxFault,
  SandboxPayments,
  type SandboxPaymentsOptions,
} from './sandbox-payments.js'
export { type Fengari, fengariVm, type LuaVm } from './sim/lua.js'
export {
  flashSaleIn,
  type OpenSale,
  type SimParts,
  type SimPayments,
  type SimSale,
} from './sim/sale.js'
export { type FoundBreach, type Simulated, type SimulateOptions, simulate } from './sim/simulate.js'
