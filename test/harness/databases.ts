import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import knexPackage, { type Knex } from 'knex'
import { askDesk } from './desk.js'
import { removeScratch, scratchFolder } from './scratch.js'

export const DATABASES = ['sqlite', 'mariadb', 'mysql', 'postgres'] as const
export type DatabaseKind = (typeof DATABASES)[number]
export type ServerKind = Exclude<DatabaseKind, 'sqlite'>

export interface Endpoint {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
}

/** Enough to open the database again, also in another process: plain JSON. */
export type DatabaseAddress =
  | { readonly kind: 'sqlite'; readonly filename: string }
  | ({ readonly kind: ServerKind } & Endpoint)

/** knex prints what it also rejects with: every refused connection to a server that a test has killed. */
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} }

export interface FreshDatabase {
  readonly kind: DatabaseKind
  readonly knex: Knex
  readonly address: DatabaseAddress
  /** Closes the pool and drops the database. */
  destroy(): Promise<void>
}

/**
 * A database of its own, empty. Unless `server` names another, it lives on the one server of its kind that all test files
 * of a run share and the first to ask starts; SQLite needs nothing. The pool opens connections as they are needed, `poolMax` at most
 * (10; SQLite always 1, its driver is synchronous).
 */
export async function freshDatabase(
  kind: DatabaseKind,
  o: { readonly poolMax?: number; readonly server?: Endpoint } = {},
): Promise<FreshDatabase> {
  if (kind === 'sqlite') {
    const folder = scratchFolder('sqlite')
    const address = { kind, filename: join(folder, 'test.sqlite') } as const
    const knex = openDatabase(address)
    const destroy = async () => {
      await knex.destroy()
      removeScratch(folder)
    }
    return { kind, knex, address, destroy }
  }
  const { host, port, user, password, database } = o.server ?? (await sharedServer(kind))
  const server = { kind, host, port, user, password, database } as const
  const address = { ...server, database: `t_${randomUUID().replaceAll('-', '')}` }
  await alone(server, (admin) => admin.raw(`CREATE DATABASE ${address.database}`))
  const knex = openDatabase(address, o)
  const destroy = async () => {
    await knex.destroy()
    const force = kind === 'postgres' ? ' WITH (FORCE)' : ''
    await alone(server, (admin) => admin.raw(`DROP DATABASE ${address.database}${force}`))
  }
  return { kind, knex, address, destroy }
}

/** A pool on a database that exists; with `port`, through a proxy. Whoever opens it calls `knex.destroy()`. */
export function openDatabase(
  address: DatabaseAddress,
  o: { readonly poolMax?: number; readonly port?: number } = {},
): Knex {
  if (address.kind === 'sqlite')
    return knexPackage({
      client: 'better-sqlite3',
      connection: { filename: address.filename },
      useNullAsDefault: true,
      pool: { min: 1, max: 1 },
      log: SILENT,
    })
  const { kind, ...endpoint } = address
  return knexPackage({
    client: kind === 'postgres' ? 'pg' : 'mysql2',
    connection: { ...endpoint, port: o.port ?? endpoint.port },
    pool: { min: 0, max: o.poolMax ?? 10 },
    log: SILENT,
  })
}

/** True when the server does work; rejects as long as it does not. */
export async function answers(server: DatabaseAddress): Promise<boolean> {
  await alone(server, (admin) => admin.raw('SELECT 1'))
  return true
}

async function alone(server: DatabaseAddress, act: (admin: Knex) => Promise<unknown>) {
  const admin = openDatabase(server, { poolMax: 1 })
  try {
    await act(admin)
  } finally {
    await admin.destroy()
  }
}

/**
 * The server of this kind that all files of the run share; started now if nobody asked before. Vitest is asked only here,
 * so that child processes and benches can use this file without it.
 */
export async function sharedServer(kind: ServerKind): Promise<Endpoint> {
  const { inject } = await import('vitest')
  const desk = inject('desk')
  if (desk) return askDesk(desk, kind)
  throw new Error(`no ${kind} here: tests that need servers belong in test/real`)
}
