import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { need } from '../binaries.js'
import { answers } from '../databases.js'
import { LOOPBACK } from '../net.js'
import { start } from '../process.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { type DatabaseServer, runServer } from './server.js'

/** PostgreSQL refuses to run as root; its Debian package brings a user for it. */
const SERVICE_USER = 'postgres'
const APP = { user: 'app', password: 'app', database: 'postgres' } as const

/** Every commit is on disk before it is acknowledged, unless `flush` is false. */
export async function startPostgres(o: { readonly flush?: boolean } = {}): Promise<DatabaseServer> {
  const command = need('postgres')
  const folder = scratchFolder('postgres')
  const data = join(folder, 'data')
  const asUser = process.getuid?.() === 0 ? { asUser: SERVICE_USER } : {}
  mkdirSync(data, { mode: 0o700 })
  if (asUser.asUser) execFileSync('chown', [SERVICE_USER, data])

  const initdb = await start({
    name: 'initdb',
    command: need('initdb'),
    args: `-D ${data} -U ${APP.user} -A trust -E UTF8 --locale=C.UTF-8 --no-sync`.split(' '),
    ...asUser,
  })
  const { code } = await initdb.exited
  if (code !== 0) throw new Error(`initdb ended with ${code}:\n${initdb.output()}`)

  const server = await runServer({
    name: 'postgres',
    command,
    args: (port) => [
      ...['-D', data, '-p', String(port), '-h', LOOPBACK],
      ...['-c', 'unix_socket_directories=', '-c', 'max_connections=300'],
      ...['-c', `synchronous_commit=${o.flush === false ? 'off' : 'on'}`],
    ],
    ...asUser,
    ready: (port) => answers({ kind: 'postgres', host: LOOPBACK, port, ...APP }),
    cleanUp: () => removeScratch(folder),
  })
  return Object.assign(server, APP)
}
