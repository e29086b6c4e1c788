import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { need } from '../binaries.js'
import { answers } from '../databases.js'
import { LOOPBACK } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { type DatabaseServer, runServer } from './server.js'

const run = promisify(execFile)

export const APP = { user: 'app', password: 'app', database: 'app' } as const

/** Runs at every start, before the port opens; MySQL's too. */
export const INIT_SQL = `
CREATE DATABASE IF NOT EXISTS app;
CREATE USER IF NOT EXISTS 'app'@'${LOOPBACK}' IDENTIFIED BY 'app';
GRANT ALL ON *.* TO 'app'@'${LOOPBACK}' WITH GRANT OPTION;
`

/** `flush` is innodb_flush_log_at_trx_commit: 1, the default, has every commit on disk, as a shop would run it. */
export async function startMariadb(
  o: { readonly flush?: 0 | 1 | 2 } = {},
): Promise<DatabaseServer> {
  const command = need('mariadbd')
  const folder = scratchFolder('mariadb')
  const data = join(folder, 'data')
  const initFile = join(folder, 'init.sql')
  const asRoot = process.getuid?.() === 0 ? ['--user=root'] : []
  // The redo log of 96 MB that is the default takes longer to write than everything else of a start.
  const storage = ['--innodb-log-file-size=16M', '--innodb-buffer-pool-size=128M']
  writeFileSync(initFile, INIT_SQL)
  await run(need('mariadb-install-db'), [
    '--no-defaults',
    ...asRoot,
    `--datadir=${data}`,
    // Two that install at once must not meet in /tmp: their temporary tables may have one name.
    `--tmpdir=${folder}`,
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
    ...storage,
  ])
  const server = await runServer({
    name: 'mariadbd',
    command,
    args: (port) => [
      '--no-defaults',
      ...asRoot,
      `--datadir=${data}`,
      `--tmpdir=${folder}`,
      `--socket=${join(folder, 'mariadb.sock')}`,
      `--pid-file=${join(folder, 'mariadb.pid')}`,
      `--init-file=${initFile}`,
      `--port=${port}`,
      `--bind-address=${LOOPBACK}`,
      `--innodb-flush-log-at-trx-commit=${o.flush ?? 1}`,
      '--max-connections=500',
      '--character-set-server=utf8mb4',
      '--skip-name-resolve',
      ...storage,
    ],
    ready: (port) => answers({ kind: 'mariadb', host: LOOPBACK, port, ...APP }),
    cleanUp: () => removeScratch(folder),
  })
  return Object.assign(server, APP)
}
