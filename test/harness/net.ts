import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const LOOPBACK = '127.0.0.1'

/**
 * A port nobody listens on. Taken below the range the kernel gives to outgoing connections (32768 and up on Linux): from
 * within it, a client that reconnects to a stopped server may be given that very port and then talks to itself.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = 15_000 + Math.floor(Math.random() * 17_000)
    if (await canListen(port)) return port
  }
  throw new Error('no free port among 100 tried')
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, LOOPBACK, () => probe.close(() => resolve(true)))
  })
}

/** Asks again every 20 ms until `ready` resolves true; a throw counts as "not yet". */
export async function until(
  what: string,
  ready: () => Promise<boolean> | boolean,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  let last: unknown = 'it said no'
  while (Date.now() < deadline) {
    try {
      if (await ready()) return
    } catch (error) {
      last = error
    }
    await sleep(20)
  }
  throw new Error(`${what} within ${timeoutMs} ms: not so`, { cause: last })
}
