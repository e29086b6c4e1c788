export {
  type QueueCase,
  type QueueFeature,
  type QueueUnderTest,
  queueSuite,
} from './queue-suite.js'
export {
  type SandboxFault,
  SandboxPayments,
  type SandboxPaymentsOptions,
} from './sandbox-payments.js'
