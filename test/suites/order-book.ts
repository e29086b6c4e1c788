import type { DatabaseKind } from '../harness/databases.js'
import { activitiesSuite } from './order-book/activities.js'
import { closeSuite } from './order-book/close.js'
import { confirmSuite } from './order-book/confirm.js'
import { hooksSuite } from './order-book/hooks.js'
import { idsAndNumbersSuite } from './order-book/ids-and-numbers.js'
import { inputSuite } from './order-book/input.js'
import { readingSuite } from './order-book/reading.js'
import { stockSuite } from './order-book/stock.js'
import { strongSuite } from './order-book/strong.js'

/** What every order book on every database must do. */
export function orderBookSuite(kind: DatabaseKind): void {
  confirmSuite(kind)
  hooksSuite(kind)
  closeSuite(kind)
  strongSuite(kind)
  stockSuite(kind)
  readingSuite(kind)
  activitiesSuite(kind)
  idsAndNumbersSuite(kind)
  inputSuite(kind)
}
