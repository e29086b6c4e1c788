import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { find } from '../../test/harness/binaries.js'
import { isExecutable } from '../../test/harness/process.js'
import { mysqld } from '../../test/harness/services/mysql.js'
import { make } from './make.js'
import { run } from './run.js'

const APT = '/usr/bin/apt-get'
const DEBIAN_KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'

/**
 * MySQL 9 with an empty data folder, copied at each start (initialising one takes 4 s). Debian stable has no MySQL: its
 * packages and all their libraries come from the unstable branch, are unpacked and never installed, so this needs no
 * root; `mysqld()` runs them. 60 MB to fetch, about 400 MB on disk.
 */
export function makeMysql(): void {
  make('mysql', 'fetching MySQL 9 from Debian unstable, 60 MB', (folder) => {
    const mirror = isExecutable(APT) && existsSync(DEBIAN_KEYS) ? debianMirror() : undefined
    if (mirror) unpackFromUnstable(mirror, folder)
    else checkInstalled()
    const { command, args } = mysqld(folder)
    run(command, [...args, '--initialize-insecure', `--datadir=${join(folder, 'data')}`])
  })
}

function unpackFromUnstable(mirror: string, folder: string): void {
  const root = join(folder, 'root')
  const apt = join(folder, 'apt') // an apt of its own, that believes nothing to be installed
  for (const name of ['lists/partial', 'archives/partial'])
    mkdirSync(join(apt, name), { recursive: true })
  writeFileSync(join(apt, 'status'), '')
  writeFileSync(
    join(apt, 'unstable.sources'),
    `Types: deb\nURIs: ${mirror}\nSuites: sid\nComponents: main\nSigned-By: ${DEBIAN_KEYS}\n`,
  )
  const words = {
    'Dir::Etc::sourcelist': join(apt, 'unstable.sources'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::State': apt,
    'Dir::State::status': join(apt, 'status'),
    'Dir::Cache': apt,
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root', // otherwise root fetches as a user who may not enter this folder
    'Acquire::Languages': 'none',
  }
  const options = Object.entries(words).flatMap(([word, value]) => ['-o', `${word}=${value}`])
  run(APT, [...options, 'update', '-q'])
  run(APT, [...options, 'install', '-q', '-y', '--download-only', 'mysql-server-core'])
  const packages = readdirSync(join(apt, 'archives')).filter((name) => name.endsWith('.deb'))
  mkdirSync(root)
  // Perl is for scripts around the server, and as large as all the libraries together.
  for (const name of packages)
    if (!/^(lib)?perl/.test(name)) run('dpkg-deb', ['-x', join(apt, 'archives', name), root])
  rmSync(apt, { recursive: true })
  for (const name of ['doc', 'man']) rmSync(join(root, 'usr/share', name), { recursive: true })
}

/** Where this system's own packages come from, in either format of apt's list. */
function debianMirror(): string | undefined {
  const lists = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']
  const text = lists
    .filter(existsSync)
    .map((list) => readFileSync(list, 'utf8'))
    .join('\n')
  return (/^URIs:\s*(\S+)/m.exec(text) ?? /^deb\s+(?:\[[^\]]*\]\s+)?(\S+)/m.exec(text))?.[1]
}

function checkInstalled(): void {
  const command = find('mysqld')
  const version = command ? run(command, ['--version']) : 'no mysqld'
  if (!/Ver (8|9)\./.test(version) || /mariadb/i.test(version))
    throw new Error(`the tests need MySQL 8 or 9 on the PATH, found: ${version.trim()}`)
}
