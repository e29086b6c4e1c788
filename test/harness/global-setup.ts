import type { TestProject } from 'vitest/node'
import type { Endpoint } from './databases.js'
import { removeAbandonedScratch } from './scratch.js'
import { startMariadb } from './services/mariadb.js'
import { startPostgres } from './services/postgres.js'
import type { DatabaseServer } from './services/server.js'

declare module 'vitest' {
  interface ProvidedContext {
    mariadb: Endpoint
    postgres: Endpoint
  }
}

/**
 * One MariaDB and one PostgreSQL for all files of the `real` project, each test with a database of its own. A Redis
 * is so cheap that every test starts its own, and so does a test that harms its database server.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  removeAbandonedScratch()
  const servers = await Promise.all([startMariadb(), startPostgres()])
  const [mariadb, postgres] = servers
  project.provide('mariadb', endpoint(mariadb))
  project.provide('postgres', endpoint(postgres))
  return async () => {
    await Promise.all(servers.map((server) => server.stop()))
    removeAbandonedScratch() // of processes that tests have killed
  }
}

/** What can be sent to another process. */
function endpoint({ host, port, user, password, database }: DatabaseServer): Endpoint {
  return { host, port, user, password, database }
}
