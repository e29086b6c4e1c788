import { fail } from '../../core/check.js'

/** Lower case only: PostgreSQL folds unquoted names, MySQL on Linux does not. 30 leaves room within PostgreSQL's 63. */
const PREFIX = /^[a-z][a-z0-9_]{0,29}$/
const DEFAULT_PREFIX = 'seckill_'

/** Every table of the order book, spelled once. */
export interface Tables {
  readonly stock: string
  readonly order: string
  readonly message: string
  readonly manualTask: string
  readonly activity: string
  readonly terms: string
  readonly audit: string
  readonly topUp: string
  readonly payment: string
  readonly refund: string
  readonly lease: string
  readonly fence: string
  readonly seal: string
  readonly sealed: string
  readonly finding: string
  readonly saga: string
  /** The order table with readable times. */
  readonly orderView: string
}

/** The outbox keeps its well-known name `local_message`; only another prefix than the default is put before it. */
export function tablesOf(prefix: string = DEFAULT_PREFIX): Tables {
  if (typeof prefix !== 'string' || !PREFIX.test(prefix))
    fail(
      'BAD_OPTION',
      'option prefix',
      '1 to 30 lower-case letters, digits and _, a letter first',
      prefix,
    )
  return {
    stock: `${prefix}stock`,
    order: `${prefix}order`,
    message: prefix === DEFAULT_PREFIX ? 'local_message' : `${prefix}local_message`,
    manualTask: `${prefix}manual_task`,
    activity: `${prefix}activity`,
    terms: `${prefix}activity_terms`,
    audit: `${prefix}audit`,
    topUp: `${prefix}top_up`,
    payment: `${prefix}payment`,
    refund: `${prefix}refund`,
    lease: `${prefix}lease`,
    fence: `${prefix}fence`,
    seal: `${prefix}seal`,
    sealed: `${prefix}sealed`,
    finding: `${prefix}finding`,
    saga: `${prefix}saga`,
    orderView: `${prefix}order_readable`,
  }
}
