import type { DatabaseKind } from '../harness/databases.js'
import { addSuite } from './outbox/add.js'
import { dispatcherSuite } from './outbox/dispatcher.js'
import { outboxInputSuite } from './outbox/input.js'
import { storeSuite } from './outbox/store.js'

/** What the outbox must do on every database. */
export function outboxSuite(kind: DatabaseKind): void {
  storeSuite(kind)
  addSuite(kind)
  dispatcherSuite(kind)
  outboxInputSuite(kind)
}
