import { fileURLToPath } from 'node:url'
import { missingPackages, NEEDS, type Need } from '../test/harness/binaries.js'
import { isExecutable } from '../test/harness/process.js'
import { makeBrokers } from './provision/brokers.js'
import { makeMysql } from './provision/mysql.js'
import { run, step } from './provision/run.js'

const APT = '/usr/bin/apt-get'
/** Wanted, but not worth a refusal: without it RocketMQ listens beyond loopback, and says so. */
const COMPILER = ['gcc', 'libc6-dev']

/**
 * Brings the servers that are needed (by default Redis, MariaDB and PostgreSQL) where that is possible without asking:
 * packages as root on a Debian, all else into a cache outside of the checkout (`artifacts.ts`), as anybody. Elsewhere it
 * says what is missing and throws; tests are never skipped for want of a service. Nothing is done twice on a machine.
 */
export function provision(needs: readonly Need[] = ['core']): void {
  installPackages(needs)
  if (needs.includes('brokers')) makeBrokers()
  if (needs.includes('mysql')) makeMysql()
}

function installPackages(needs: readonly Need[]): void {
  const missing = missingPackages(needs)
  if (missing.length === 0) return
  if (process.getuid?.() !== 0 || !isExecutable(APT)) {
    if (missing.every((name) => COMPILER.includes(name))) return
    throw new Error(
      `the tests need programs that are not installed; on Debian, as root:\n  apt-get update && apt-get install ${missing.join(' ')}`,
    )
  }
  step(`installing ${missing.join(', ')}`, () => {
    // Runlevel 1 keeps the packages from starting servers of their own: ours run on other ports and on other data.
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
    run(APT, ['update', '-q'], { env })
    run(APT, ['install', '-q', '-y', '--no-install-recommends', ...missing], { env })
  })
  const still = missingPackages(needs)
  if (still.length > 0) throw new Error(`still missing after apt-get install: ${still.join(', ')}`)
}

// `npm run provision` brings everything.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    provision(NEEDS)
    console.log('everything the tests need is here')
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
