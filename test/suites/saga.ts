import { describe } from 'vitest'
import type { DatabaseKind } from '../harness/databases.js'
import { beginTests } from './saga/begin.js'
import { holdingTests } from './saga/holding.js'
import { inputTests } from './saga/input.js'
import { useSagas } from './saga/kit.js'
import { parkedTests } from './saga/parked.js'
import { stepTests } from './saga/steps.js'

/** What sagas must do on every database. */
export function sagaSuite(kind: DatabaseKind): void {
  describe(`CompensationSaga on ${kind}`, () => {
    const kit = useSagas(kind)
    beginTests(kit)
    stepTests(kit)
    parkedTests(kit)
    holdingTests(kit)
    inputTests(kit)
  })
}
