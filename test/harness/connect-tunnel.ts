import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { LOOPBACK } from './net.js'

/**
 * An HTTP proxy that takes every connection to one port, wherever it was meant to go. gRPC clients use it when `grpc_proxy`
 * names it: what they are told of a broker's own address then leads through a `TcpProxy` all the same. Lives as long as
 * the process.
 */
export async function openTunnel(to: number): Promise<string> {
  const server = createServer()
  server.on('connect', (_, client, head) => {
    const broker = connect({ host: LOOPBACK, port: to, noDelay: true }, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      broker.write(head)
      client.pipe(broker).pipe(client)
    })
    for (const [one, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve))
  server.unref()
  return `http://${LOOPBACK}:${(server.address() as AddressInfo).port}`
}
