/** `npm run whole-sale -- --runs 10 --db mariadb`: V2 through HTTP, as often as you like. */
import { parseArgs } from 'node:util'
import { startMariadb, startPostgres } from '../test/harness/services.js'
import { faultsOf, wholeSale } from '../test/harness/whole-sale.js'
import { provision } from './provision.js'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '10' },
    db: { type: 'string', default: 'mariadb' },
    help: { type: 'boolean' },
  },
})
const runs = Number(values.runs)
const { db } = values
if (values.help || !Number.isInteger(runs) || runs < 1 || (db !== 'mariadb' && db !== 'postgres')) {
  console.log('npm run whole-sale -- [--runs 10] [--db mariadb|postgres]')
  process.exit(values.help ? 0 : 2)
}

provision()
const server = db === 'mariadb' ? await startMariadb() : await startPostgres()
let failed = 0
try {
  for (let run = 1; run <= runs; run++) {
    const begun = performance.now()
    const result = await wholeSale({ db, server })
    const faults = faultsOf(result, { requests: 50_000, units: 1_000 })
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1)
    console.log(
      `${run} of ${runs}: ${faults.length === 0 ? 'exact' : faults.slice(0, 5).join('; ')} ${JSON.stringify(result.codes)} ${seconds} s`,
    )
    if (faults.length > 0) failed++
  }
} finally {
  await server.stop()
}
console.log(`${runs - failed} of ${runs} exact`)
process.exitCode = failed > 0 ? 1 : 0
