import type { Knex } from 'knex'
import { FlashSaleError } from '../../core/errors.js'
import { Database } from './database.js'
import { type SchemaDialect, schemaTables, schemaView } from './schema.js'

type Run = (sql: string) => Promise<readonly object[]>

/** Any number will do, as long as it is ours: the name `flash-sale-kit` in a hash. */
const PG_LOCK = 7_020_265_251
const LOCK_SECONDS = 60

export async function migrate(knex: Knex, prefix: string | undefined): Promise<void> {
  const database = new Database({ knex, ...(prefix === undefined ? {} : { prefix }) })
  const name = database.dialect.name
  await database.session(async (run) => {
    if (name === 'mysql') await underMysqlLock(run, () => createOnMysql(run, prefix))
    else await inTransaction(run, name, () => create(run, name, prefix))
  })
}

/** PostgreSQL and SQLite take DDL in a transaction; a half-made schema is never seen. */
async function inTransaction(run: Run, dialect: 'pg' | 'sqlite', work: () => Promise<void>) {
  await run(dialect === 'pg' ? 'BEGIN' : 'BEGIN IMMEDIATE')
  try {
    // Two CREATE TABLE IF NOT EXISTS at once can still collide in PostgreSQL's catalogue.
    if (dialect === 'pg') await run(`SELECT pg_advisory_xact_lock(${PG_LOCK})`)
    await work()
    await run('COMMIT')
  } catch (error) {
    await run('ROLLBACK').catch(() => undefined)
    throw error
  }
}

async function underMysqlLock(run: Run, work: () => Promise<void>): Promise<void> {
  const [got] = await run(`SELECT GET_LOCK('flash-sale-kit', ${LOCK_SECONDS}) AS got`)
  if (Number((got as { got?: unknown }).got) !== 1)
    throw new FlashSaleError('DB_BUSY', `another process migrates for more than ${LOCK_SECONDS} s`)
  try {
    await work()
  } finally {
    await run("SELECT RELEASE_LOCK('flash-sale-kit') AS released")
  }
}

async function createOnMysql(run: Run, prefix: string | undefined): Promise<void> {
  const [row] = await run('SELECT VERSION() AS version')
  const isMaria = /mariadb/i.test(String((row as { version?: unknown }).version))
  await create(run, isMaria ? 'mariadb' : 'mysql', prefix)
}

async function create(run: Run, dialect: SchemaDialect, prefix: string | undefined): Promise<void> {
  for (const { name, columns, create, indexes } of schemaTables(dialect, prefix)) {
    await run(create)
    // CREATE TABLE IF NOT EXISTS is content with any table of that name; a host may well have a `local_message`.
    await run(`SELECT ${columns.join(', ')} FROM ${name} WHERE 1 = 0`).catch((cause) => {
      throw new FlashSaleError(
        'BAD_OPTION',
        `the database has a table ${name} with other columns: choose another prefix`,
        { cause },
      )
    })
    for (const index of indexes) await run(index)
  }
  await run(schemaView(dialect, prefix))
}
