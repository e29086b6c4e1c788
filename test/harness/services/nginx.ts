import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { need } from '../binaries.js'
import { accepts } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { runServer, type Server } from './server.js'

/**
 * An nginx with the given contents of `http { … }`, which get the port they should listen on:
 *
 * ```ts
 * startNginx({ config: (port) => `server { listen 127.0.0.1:${port}; location / { return 204; } }` })
 * ```
 *
 * One process instead of a master with workers, because the workers of a killed master would live on. Errors are in
 * what a failed start throws; there is no access log.
 */
export async function startNginx(o: {
  readonly config: (port: number) => string
}): Promise<Server> {
  const folder = scratchFolder('nginx')
  const file = join(folder, 'nginx.conf')
  mkdirSync(join(folder, 'temp'))
  return runServer({
    name: 'nginx',
    command: need('nginx'),
    args: (port) => {
      writeFileSync(file, wholeConfig(o.config(port)))
      return ['-p', folder, '-e', 'stderr', '-c', file]
    },
    ready: accepts,
    cleanUp: () => removeScratch(folder),
  })
}

/** Debian's nginx writes under /var unless each of these is set. */
function wholeConfig(http: string): string {
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
${kinds.map((kind) => `  ${kind}_temp_path temp/${kind};`).join('\n')}
${http}
}
`
}
