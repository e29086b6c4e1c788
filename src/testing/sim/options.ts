import type { OrderBook } from '../../core/order-book.js'
import type { PaymentBook, PaymentProvider } from '../../core/payment.js'
import type { LuaVm } from './lua.js'
import type { RedisStore } from './redis-store.js'
import type { OpenSale, SimSale } from './sale.js'
import type { ControlRules } from './sim-control.js'
import type { BookRules } from './sim-database.js'
import type { Write } from './sim-orders.js'

/** The library with one rule broken. */
export interface Broken {
  readonly id: string
  /** The rule that is missing, in a sentence. */
  readonly rule: string
  /** Changes the text of the scripts. */
  readonly lua?: (text: string) => string
  readonly book?: Partial<BookRules>
  readonly orders?: (orders: OrderBook, own: Own) => OrderBook
  readonly payments?: (book: PaymentBook, own: Own) => PaymentBook
  readonly control?: ControlRules
  /** Sends a batch as two messages. */
  readonly splits?: true
}

/** What a wrapper of one process may reach. */
export interface Own {
  readonly sale: () => SimSale
  readonly orders: () => OrderBook
  readonly write: Write
  readonly store: RedisStore
  readonly channels: readonly PaymentProvider[]
}

export interface WorldOptions {
  readonly sale: OpenSale
  readonly lua: LuaVm
  /** For the trace: what the scripts are called. */
  readonly scripts?: readonly { readonly name: string; readonly sha: string }[]
  /** For the tests of the simulator itself. */
  readonly broken?: Broken
}
