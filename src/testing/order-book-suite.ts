import type { OrderBook } from '../core/order-book.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'
import { BookBench } from './orders/bench.js'
import { buying } from './orders/buying.js'
import { closing } from './orders/closing.js'
import { deciding } from './orders/deciding.js'
import { reading } from './orders/reading.js'
import { stocking } from './orders/stocking.js'

/** An order book, with what the cases need to know and do. */
export interface OrderBookUnderTest {
  readonly book: OrderBook
  /** Another instance on the same rows, as another process would have it; where there is none, the same. */
  another(): OrderBook
  /** CONFIRMED to PAID, as the host's payments do it; false when it was neither. */
  pay(orderNo: string): Promise<boolean>
  /** All that is to be done later is due so much earlier, as if the time had passed. */
  passTime(ms: number): Promise<void>
  /** Work left for a person. */
  tasks(): Promise<readonly { readonly kind: string; readonly ref: string }[]>
  /** Feature `strong`: makes the durable row of an activity say open, or stopped. */
  control?(activityId: string, to: 'open' | 'stopped'): Promise<void>
  close(): Promise<void>
}

/** `strong`: `buy` sells; without it a book may refuse it. */
export type OrderBookFeature = 'strong'

export type OrderBookCheck = Check<BookBench, OrderBookFeature>

const CHECKS: readonly OrderBookCheck[] = [
  ...deciding,
  ...closing,
  ...stocking,
  ...reading,
  ...buying,
]

/** The contract of the {@link OrderBook} port as cases for any test runner. */
export function orderBookSuite(
  features: readonly OrderBookFeature[] = [],
): readonly ConformanceCase<OrderBookUnderTest>[] {
  const open = (under: OrderBookUnderTest) => new BookBench(under)
  return casesOf('orderBookSuite', CHECKS, features, open)
}
