import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isExecutable } from './process.js'

/** The programs the tests run or are prepared with, each with the Debian packages that bring it, by what needs them. */
const PROGRAMS = {
  core: {
    'redis-server': 'redis-server',
    mariadbd: 'mariadb-server-core',
    'mariadb-install-db': 'mariadb-server-core',
    my_print_defaults: 'mariadb-client-core', // called by mariadb-install-db
    postgres: 'postgresql',
    initdb: 'postgresql',
  },
  brokers: {
    java: 'default-jre-headless',
    mvn: 'maven',
    openssl: 'openssl',
    cc: 'gcc libc6-dev', // RocketMQ listens on every address unless a compiled shim keeps it from doing so
  },
  mysql: {},
  nginx: { nginx: 'nginx' },
  load: { wrk: 'wrk' },
} as const satisfies Record<string, Record<string, string>>

/** What a run may want: `core` is Redis, MariaDB and PostgreSQL, `brokers` RocketMQ and Kafka, `load` wrk. */
export type Need = keyof typeof PROGRAMS
export const NEEDS = Object.keys(PROGRAMS) as Need[]

const PACKAGES: Readonly<Record<string, string>> = Object.assign({}, ...Object.values(PROGRAMS))
type Keys<T> = T extends unknown ? keyof T : never
type Program = Keys<(typeof PROGRAMS)[Need]>

/** Debian keeps the database servers off the PATH. */
function folders(): string[] {
  const versions = '/usr/lib/postgresql'
  let postgres: string[] = []
  try {
    postgres = readdirSync(versions)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(versions, version, 'bin'))
  } catch {
    // not a Debian with PostgreSQL; the PATH may still have it
  }
  return [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/bin', ...postgres]
}

export function find(program: string): string | undefined {
  return folders()
    .map((folder) => join(folder, program))
    .find(isExecutable)
}

/** A missing program is a failed test, never a skipped one. */
export function need(program: Program): string {
  const path = find(program)
  if (path) return path
  throw new Error(
    `${program} is not installed; on Debian: apt-get install ${PACKAGES[program]} (npm test does it as root)`,
  )
}

export function missingPackages(needs: readonly Need[]): string[] {
  const missing = needs
    .flatMap((what) => Object.entries(PROGRAMS[what]))
    .filter(([program]) => !find(program))
    .flatMap(([, packages]) => packages.split(' '))
  return [...new Set(missing)]
}
