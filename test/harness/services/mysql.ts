import { execFile } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { artifact } from '../artifacts.js'
import { find } from '../binaries.js'
import { answers } from '../databases.js'
import { LOOPBACK } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { APP, INIT_SQL } from './mariadb.js'
import { type DatabaseServer, runServer } from './server.js'

const run = promisify(execFile)

/**
 * A MySQL 9 of its own, up in about 1 s; `app` logs in over caching_sha2_password. `flush` is
 * innodb_flush_log_at_trx_commit: 1, the default, has every commit on disk.
 */
export async function startMysql(o: { readonly flush?: 0 | 1 | 2 } = {}): Promise<DatabaseServer> {
  const made = artifact('mysql')
  const { command, args } = mysqld(made)
  const folder = scratchFolder('mysql')
  const data = join(folder, 'data')
  const initFile = join(folder, 'init.sql')
  writeFileSync(initFile, INIT_SQL)
  await run('cp', ['-a', '--sparse=always', join(made, 'data'), data])
  const server = await runServer({
    name: 'mysqld',
    command,
    args: (port) => [
      ...args,
      `--datadir=${data}`,
      `--socket=${join(folder, 'mysql.sock')}`,
      `--pid-file=${join(folder, 'mysql.pid')}`,
      `--init-file=${initFile}`,
      `--port=${port}`,
      `--bind-address=${LOOPBACK}`,
      `--innodb-flush-log-at-trx-commit=${o.flush ?? 1}`,
      '--max-connections=500',
      '--skip-name-resolve',
      '--mysqlx=OFF',
      '--skip-log-bin',
      '--performance-schema=OFF', // 0.1 GB of memory
    ],
    ready: (port) => answers({ kind: 'mysql', host: LOOPBACK, port, ...APP }),
    cleanUp: () => removeScratch(folder),
  })
  return Object.assign(server, APP)
}

/**
 * The command and its first arguments. Debian stable has no MySQL: there the artifact holds the packages of Debian's
 * unstable branch, unpacked beside the libraries they were built for, whose loader runs them; nothing is installed and
 * root is not needed. Without them the mysqld of the PATH is run.
 */
export function mysqld(made: string): { command: string; args: string[] } {
  const asRoot = process.getuid?.() === 0 ? ['--user=root'] : []
  const common = [
    ...['--no-defaults', ...asRoot, '--secure-file-priv=NULL'],
    ...['--innodb-redo-log-capacity=32M', '--innodb-buffer-pool-size=128M'],
  ]
  const root = join(made, 'root')
  if (!existsSync(root)) {
    const command = find('mysqld')
    if (!command) throw new Error('mysqld is gone from the PATH: npm run provision')
    return { command, args: common }
  }
  const triplet = readdirSync(join(root, 'usr/lib')).find((name) => name.includes('-linux-gnu'))
  const libraries = join(root, 'usr/lib', triplet ?? '')
  const loader = readdirSync(libraries).find((name) => name.startsWith('ld-linux'))
  return {
    command: join(libraries, loader ?? 'ld-linux'),
    args: [
      ...['--library-path', libraries, join(root, 'usr/sbin/mysqld'), ...common],
      `--basedir=${join(root, 'usr')}`,
      `--lc-messages-dir=${join(root, 'usr/share/mysql')}`,
      `--plugin-dir=${join(root, 'usr/lib/mysql/plugin')}`,
    ],
  }
}
