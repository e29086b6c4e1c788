import type { DatabaseKind } from '../harness/databases.js'
import { closingSuite } from './payment/closing.js'
import { createSuite } from './payment/create.js'
import { inputSuite } from './payment/input.js'
import { lateSuite } from './payment/late.js'
import { misfitSuite } from './payment/misfits.js'
import { noticeSuite } from './payment/notice.js'
import { refundSuite } from './payment/refunds.js'
import { stormSuite } from './payment/storm.js'

/** What payments must do on every database. */
export function paymentSuite(kind: DatabaseKind): void {
  createSuite(kind)
  noticeSuite(kind)
  misfitSuite(kind)
  lateSuite(kind)
  refundSuite(kind)
  closingSuite(kind)
  stormSuite(kind)
  inputSuite(kind)
}
