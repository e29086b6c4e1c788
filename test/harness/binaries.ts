import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isExecutable } from './process.js'

/** The programs the tests run, each with the Debian package that brings it. */
const PROGRAMS = {
  'redis-server': 'redis-server',
  mariadbd: 'mariadb-server-core',
  'mariadb-install-db': 'mariadb-server-core',
  my_print_defaults: 'mariadb-client-core', // called by mariadb-install-db
  postgres: 'postgresql',
  initdb: 'postgresql',
} as const

type Program = keyof typeof PROGRAMS

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

function find(program: Program): string | undefined {
  return folders()
    .map((folder) => join(folder, program))
    .find(isExecutable)
}

/** A missing program is a failed test, never a skipped one. */
export function need(program: Program): string {
  const path = find(program)
  if (path) return path
  throw new Error(
    `${program} is not installed; on Debian: apt-get install ${PROGRAMS[program]} (npm test does it as root)`,
  )
}

export function missingPackages(): string[] {
  const programs = Object.keys(PROGRAMS) as Program[]
  return [...new Set(programs.filter((p) => !find(p)).map((p) => PROGRAMS[p]))]
}
