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
export { type Fengari, fengariVm, type LuaVm } from './sim/lua.js'
export { flashSaleIn, type OpenSale, type SimParts, type SimSale } from './sim/sale.js'
export { type FoundBreach, type Simulated, type SimulateOptions, simulate } from './sim/simulate.js'
