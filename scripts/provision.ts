import { spawnSync } from 'node:child_process'
import { missingPackages } from '../test/harness/binaries.js'
import { isExecutable } from '../test/harness/process.js'

const APT = '/usr/bin/apt-get'

/**
 * Installs the servers the tests need where that is possible without asking: as root on a Debian. Elsewhere it says what
 * is missing and throws; tests are never skipped for want of a service.
 */
export function provision(): void {
  const missing = missingPackages()
  if (missing.length === 0) return
  if (process.getuid?.() !== 0 || !isExecutable(APT))
    throw new Error(
      `the tests need servers that are not installed; on Debian, as root:\n  apt-get update && apt-get install ${missing.join(' ')}`,
    )
  console.log(`installing ${missing.join(', ')} …`)
  apt('update', '-q')
  apt('install', '-q', '-y', '--no-install-recommends', ...missing)
  const still = missingPackages()
  if (still.length > 0) throw new Error(`still missing after apt-get install: ${still.join(', ')}`)
}

function apt(...args: string[]): void {
  // Runlevel 1 keeps the packages from starting servers of their own: ours run on other ports and on other data.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  const { status, stdout, stderr } = spawnSync(APT, args, { env, encoding: 'utf8' })
  if (status !== 0)
    throw new Error(`apt-get ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
}
