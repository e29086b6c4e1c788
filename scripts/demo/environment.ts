import type { RedisLike } from 'flash-sale-kit'
import type { Knex } from 'knex'
import { freshDatabase } from '../../test/harness/databases.js'
import { mockRedis } from '../../test/harness/redis.js'
import type { DemoOptions } from './options.js'

export interface Environment {
  readonly backend: string
  readonly redis: RedisLike
  readonly knex: Knex
  close(): Promise<void>
}

/** The embedded default needs no server: the real Lua in ioredis-mock, SQLite in a scratch file. */
async function embedded(): Promise<Environment> {
  const database = await freshDatabase('sqlite')
  const redis = mockRedis()
  return {
    backend: 'ioredis-mock + sqlite + memory queue',
    redis,
    knex: database.knex,
    async close() {
      redis.disconnect()
      await database.destroy()
    },
  }
}

/** Servers of its own on free loopback ports, stopped when the demo ends, however it ends. */
async function real({ db }: DemoOptions): Promise<Environment> {
  const { Redis } = await import('ioredis')
  const { provision } = await import('../provision.js')
  const { startMariadb, startPostgres, startRedis } = await import('../../test/harness/services.js')
  await provision()
  const [server, dbServer] = await Promise.all([
    startRedis(),
    db === 'mariadb' ? startMariadb() : db === 'postgres' ? startPostgres() : null,
  ])
  const database = await freshDatabase(db, dbServer ? { server: dbServer } : {})
  const redis = new Redis({ host: server.host, port: server.port })
  return {
    backend: `redis + ${db} + memory queue`,
    redis,
    knex: database.knex,
    async close() {
      redis.disconnect()
      await database.destroy()
      await Promise.all([server.stop(), dbServer?.stop()])
    },
  }
}

export function openEnvironment(o: DemoOptions): Promise<Environment> {
  return o.real ? real(o) : embedded()
}
