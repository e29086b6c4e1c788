import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Need } from '../../test/harness/binaries.js'

const TESTS = join(import.meta.dirname, '../../test')
/** As in vitest.config.ts. */
const BROKER_FILE = /(broker|rocketmq|kafka)[^/]*\.test\.ts$/

/**
 * What must be there for the files that vitest's arguments choose. A word that is part of no test file's path chooses
 * nothing (it is the value of some option), so it restricts nothing here either.
 */
export function needsOf(args: readonly string[]): readonly Need[] {
  const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(TESTS, name))
  const words = args.filter((word) => !word.startsWith('-'))
  const filters = words.filter((word) => files.some((file) => file.includes(word)))
  const chosen =
    filters.length === 0 ? files : files.filter((f) => filters.some((w) => f.includes(w)))
  const real = chosen.filter((file) => file.startsWith(join(TESTS, 'real')))
  if (real.length === 0) return []
  const databases: Need[] = ['core', 'mysql', 'nginx']
  return real.some((file) => BROKER_FILE.test(file)) ? [...databases, 'brokers'] : databases
}
