import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export const LOOPBACK = '127.0.0.1'

/**
 * A port nobody listens on. Taken below the range the kernel gives to outgoing connections (32768 and up on Linux): from
 * within it, a client that reconnects to a stopped server may be given that very port and then talks to itself.
 */
export async function freePort(): Promise<number> {
  return freePorts(1)
}

/** The first of so many free ports in a row. */
export async function freePorts(inARow: number): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const first = 15_000 + Math.floor(Math.random() * 17_000)
    const row = Array.from({ length: inARow }, (_, i) => canListen(first + i))
    if ((await Promise.all(row)).every(Boolean)) return first
  }
  throw new Error('no free port among 100 tried')
}

/** True when somebody listens there. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, LOOPBACK)
    const settle = (yes: boolean) => {
      socket.destroy()
      resolve(yes)
    }
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
    socket.setTimeout(1_000, () => settle(false)) // frozen with a full backlog
  })
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
