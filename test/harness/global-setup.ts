import type { TestProject } from 'vitest/node'
import { openDesk } from './desk.js'
import { removeAbandonedScratch } from './scratch.js'
import { startMariadb } from './services/mariadb.js'
import { startMysql } from './services/mysql.js'
import { startPostgres } from './services/postgres.js'
import type { DatabaseServer } from './services/server.js'

declare module 'vitest' {
  interface ProvidedContext {
    desk: number
  }
}

/**
 * One MariaDB, MySQL and PostgreSQL for all files of a project, each started when a file asks for it (`freshDatabase`),
 * each test with a database of its own. A Redis is so cheap that every test starts its own. Whoever harms a server, and
 * every file that needs a broker, starts its own too.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  removeAbandonedScratch()
  const starters = { mariadb: startMariadb, mysql: startMysql, postgres: startPostgres }
  const desk = await openDesk<DatabaseServer>(
    starters,
    // What can be sent to another process.
    ({ host, port, user, password, database }) => ({ host, port, user, password, database }),
  )
  project.provide('desk', desk.port)
  return async () => {
    await desk.close()
    removeAbandonedScratch() // of processes that tests have killed
  }
}
