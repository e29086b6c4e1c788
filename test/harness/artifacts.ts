import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * What the tests run and apt does not bring: jars, a MySQL, a shared object. `npm run provision` makes each of them once
 * a machine, outside of the checkout, so that the next clone finds them; the tests only look them up. A name carries what
 * the content depends on: whoever changes how one is made raises its number.
 */
const ARTIFACTS = {
  rocketmq: 'rocketmq-5.5.0-1',
  kafka: 'kafka-4.1.1-1',
  mysql: `mysql-sid-1-${process.arch}`,
  loopback: `loopback-1-${process.arch}`,
} as const

export type Artifact = keyof typeof ARTIFACTS

/** FLASH_SALE_KIT_CACHE names another folder; an empty one shows what a fresh machine does. */
export function cacheFolder(): string {
  const own = process.env['FLASH_SALE_KIT_CACHE']
  if (own) return own
  return join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'flash-sale-kit')
}

/** Where it is, or will be. It is there either whole or not at all. */
export function artifactPath(artifact: Artifact): string {
  return join(cacheFolder(), ARTIFACTS[artifact])
}

export function isMade(artifact: Artifact): boolean {
  return existsSync(artifactPath(artifact))
}

/** A missing artifact is a failed test, never a skipped one. */
export function artifact(name: Artifact): string {
  if (isMade(name)) return artifactPath(name)
  throw new Error(
    `${ARTIFACTS[name]} is not in ${cacheFolder()}: npm run provision puts it there (npm test does it by itself)`,
  )
}
