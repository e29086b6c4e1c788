import { KnexSagaStore } from '../../../src/knex/saga/saga-store.js'
import { CompensationSaga } from '../../../src/saga/compensation-saga.js'
import { type DatabaseAddress, openDatabase } from '../../harness/databases.js'
import { trip } from '../../suites/saga/crash-steps.js'

/** Carries sagas on, each up to the point that its id ends with, and stays there to be killed. */
const [address = ''] = process.argv.slice(2)
const knex = openDatabase(JSON.parse(address) as DatabaseAddress)
const definition = trip(knex, async (point, { sagaId }) => {
  if (!sagaId.endsWith(`-${point.replaceAll(' ', '.')}`)) return
  process.stdout.write(`${sagaId}\n`)
  await new Promise(() => {})
})
const store = new KnexSagaStore({ knex })
await new CompensationSaga({ store, definition, concurrency: 100 }).run()
