import { Cluster, Redis } from 'ioredis'
import type { DatabaseAddress } from '../harness/databases.js'
import { LOOPBACK } from '../harness/net.js'
import type { QueueAddress } from '../harness/queues.js'

/** Enough to reach a Redis from another process: plain JSON. */
export type RedisAddress =
  | { readonly kind: 'single'; readonly port: number }
  | { readonly kind: 'sentinel'; readonly name: string; readonly ports: readonly number[] }
  | { readonly kind: 'cluster'; readonly ports: readonly number[] }

/** What a shop process is told, as JSON in the environment variable SHOP. */
export interface ShopConfig {
  readonly redis: RedisAddress
  readonly database: DatabaseAddress
  readonly queue: QueueAddress
  /** Port of the payment channels. */
  readonly channels: number
  /** `shop` sells, `consumer` confirms, `both` does both; payments, relay, guardian and reconciler run in all of them. */
  readonly role: 'shop' | 'consumer' | 'both'
  /** Of all processes together. */
  readonly ordersPerSecond: number
  /** Share of its sends that fail. */
  readonly flaky: number
  /** How far its clock is ahead (or, negative, behind), ms. */
  readonly clockMs: number
  /** How long it waits for a lock in the database. */
  readonly statementTimeoutMs: number
  /** What the limiter of all processes lets in. */
  readonly submitPerSecond: number
}

/** A client that comes back within half a second; what it logs is what its commands reject with. */
export function openRedis(address: RedisAddress): Redis | Cluster {
  const soon = (tries: number) => Math.min(tries * 50, 500)
  const client = clientOf(address, soon)
  client.on('error', () => {})
  return client
}

function clientOf(address: RedisAddress, soon: (tries: number) => number): Redis | Cluster {
  const node = { retryStrategy: soon, connectTimeout: 2_000 }
  switch (address.kind) {
    case 'single':
      return new Redis({ host: LOOPBACK, port: address.port, ...node })
    case 'sentinel':
      return new Redis({
        name: address.name,
        sentinels: address.ports.map((port) => ({ host: LOOPBACK, port })),
        sentinelRetryStrategy: soon,
        ...node,
      })
    case 'cluster':
      return new Cluster(
        address.ports.map((port) => ({ host: LOOPBACK, port })),
        { clusterRetryStrategy: soon, slotsRefreshInterval: 1_000, redisOptions: node },
      )
    default:
      return address satisfies never
  }
}
