import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LOOPBACK } from './net.js'

interface Shared {
  stop(): Promise<void>
}

export interface Desk {
  readonly port: number
  /** Stops what was started. */
  close(): Promise<void>
}

/**
 * Where test files ask for the servers they share, so that a run starts only those it needs. The files run in processes
 * that come and go; the desk is opened by the one that outlives them. Who asks first waits for the start. `describe` is
 * what can be sent of a server.
 */
export async function openDesk<S extends Shared>(
  starters: Readonly<Record<string, () => Promise<S>>>,
  describe: (server: S) => object,
): Promise<Desk> {
  const started = new Map<string, Promise<S>>()
  const give = (name: string): Promise<S> => {
    const starter = starters[name]
    if (!starter) throw new Error(`nobody here starts ${name}`)
    const server = started.get(name) ?? starter()
    started.set(name, server)
    return server
  }
  const http = createServer(async ({ url = '' }, response) => {
    try {
      const server = await give(url.slice(1))
      response.end(JSON.stringify(describe(server)))
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  })
  await new Promise<void>((resolve) => http.listen(0, LOOPBACK, resolve))
  return {
    port: (http.address() as AddressInfo).port,
    async close() {
      http.close()
      const servers = await Promise.allSettled(started.values())
      await Promise.all(servers.map((s) => (s.status === 'fulfilled' ? s.value.stop() : undefined)))
    },
  }
}

/** The address of a shared server, once it answers. */
export function askDesk<T>(port: number, name: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const asked = get({ host: LOOPBACK, port, path: `/${name}`, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('error', reject)
      response.on('end', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text) as T)
        else reject(new Error(`${name} did not start: ${text}`))
      })
    })
    asked.on('error', reject)
  })
}
