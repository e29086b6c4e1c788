import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseAddress, Endpoint, ServerKind } from '../harness/databases.js'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { LOOPBACK, until } from '../harness/net.js'
import type { RunningProcess } from '../harness/process.js'
import type { QueueAddress } from '../harness/queues.js'
import type { DatabaseServer, Server } from '../harness/services/server.js'
import { spawnNode } from '../harness/spawn-node.js'
import { TcpProxy } from '../harness/tcp-proxy.js'
import { openRedis, type ShopConfig } from './addresses.js'
import { PaymentChannels } from './channels.js'
import { Crowd } from './crowd.js'
import { openRedisGround, type RedisGround } from './redis-ground.js'
import { openSale, REF, type Sale } from './sale.js'
import type { Scenario, ShopKind, Size } from './scenario.js'

/** A broker of a run, and how each sale gets a topic of its own: what one leaves behind is no order of the next. */
export interface Broker extends Pick<Server, 'port' | 'kill' | 'restart' | 'stop'> {
  /** @param through the port of a proxy before it */
  queue(name: string, through: number): Promise<QueueAddress>
}

/** The servers that all plays of a run share. */
export interface Ground {
  readonly db: Exclude<ServerKind, 'mysql'>
  /** A scenario that harms the database needs a server of the run's own. */
  readonly database: Endpoint | DatabaseServer
  readonly broker?: Broker
}

export interface Shop {
  readonly process: RunningProcess
  readonly port: number
  readonly sells: boolean
  /** Set before it is stopped: whoever sends customers there knows, as a load balancer does. */
  leaving: boolean
}

/** When it was broken and when it was mended, by `performance.now()`. */
export interface Fault {
  readonly from: number
  readonly to: number
}

/** A sale under way: two shops, a crowd, two payment channels, and everything a scenario may break. */
export class Stage {
  readonly shops: Shop[] = []
  readonly breaches: string[] = []
  /** What a scenario measured, for its verdict. */
  readonly figures: Record<string, number> = {}
  fault: Fault | null = null
  /** When somebody could buy again, where the scenario itself has seen it. */
  recoveredAt = Number.POSITIVE_INFINITY

  private constructor(
    readonly size: Required<Size>,
    readonly sale: Sale,
    readonly redis: RedisGround,
    readonly database: {
      readonly proxy: TcpProxy
      /** Throws where the run's database is not ours to harm. */
      readonly server: DatabaseServer
    },
    readonly ground: Ground,
    private readonly network: TcpProxy | null,
    private readonly addresses: Pick<ShopConfig, 'redis' | 'database' | 'queue'>,
    private readonly closers: (() => Promise<unknown>)[],
    readonly channels: PaymentChannels,
    readonly crowd: Crowd,
  ) {}

  static async open(
    scenario: Scenario,
    ground: Ground,
    size: Required<Size>,
    name: string,
  ): Promise<Stage> {
    const { needs = {} } = scenario
    const closers: (() => Promise<unknown>)[] = []
    try {
      const redis = await openRedisGround(needs.redis ?? 'single')
      closers.push(() => redis.stop())
      const fresh = await freshDatabase(ground.db, { server: ground.database })
      closers.push(() => fresh.destroy())
      const proxy = await TcpProxy.to(ground.database.port)
      closers.push(() => proxy.close())
      const address = { ...(await shopUser(fresh)), port: proxy.port } as DatabaseAddress
      const operator = openRedis(redis.direct)
      closers.push(async () => operator.disconnect())
      const sale = await openSale(operator, fresh.knex, size, scenario.window)
      closers.push(() => sale.stop())
      const kind = needs.queue ?? 'memory'
      const network = kind === 'broker' ? await TcpProxy.to(brokerOf(ground).port) : null
      if (network) closers.push(() => network.close())
      const queue: QueueAddress =
        kind === 'broker'
          ? await brokerOf(ground).queue(name, (network as TcpProxy).port)
          : { kind }
      const ports = () => stage.selling().map((s) => s.port)
      const channels = await PaymentChannels.open(ports)
      closers.push(() => channels.close())
      const crowd = new Crowd(size, channels, ports)
      closers.push(async () => crowd.close())
      const database = {
        proxy,
        get server() {
          if ('restart' in ground.database) return ground.database
          throw new Error(`${scenario.name} needs a database server of its own`)
        },
      }
      const addresses = { redis: redis.shops, database: address, queue }
      const stage: Stage = new Stage(
        ...([size, sale, redis, database, ground, network, addresses] as const),
        ...([closers, channels, crowd] as const),
      )
      closers.push(() => Promise.all(stage.shops.map((s) => s.process.stop())))
      const shops = scenario.shops ?? [{}, {}]
      await Promise.all(shops.map((kind) => stage.openShop(kind)))
      await sale.open()
      return stage
    } catch (error) {
      await close(closers)
      throw error
    }
  }

  get broker(): Broker {
    return brokerOf(this.ground)
  }

  /** Between the shops and the broker. */
  get brokerProxy(): TcpProxy {
    if (this.network) return this.network
    throw new Error('a scenario with a broker says so in `needs`')
  }

  /** Those that take clicks at the moment. */
  selling(): Shop[] {
    return this.shops.filter((s) => s.sells && !s.leaving && s.process.isAlive())
  }

  /** Another process of the sale; it serves as soon as it is there. */
  async openShop(kind: ShopKind = {}): Promise<Shop> {
    const config: ShopConfig = {
      ...{ role: 'both', flaky: 0, ordersPerSecond: 2_000, clockMs: 0 },
      ...{ statementTimeoutMs: 5_000, submitPerSecond: 5_000 },
      ...kind,
      ...this.addresses,
      channels: this.channels.port,
    }
    const process = await spawnNode(new URL('./shop.ts', import.meta.url), {
      env: { SHOP: JSON.stringify(config) },
    })
    const line = await process.line(/^listening \d+/, 60_000)
    const sells = config.role !== 'consumer'
    const shop = { process, port: Number(line.split(' ')[1]), sells, leaving: false }
    this.shops.push(shop)
    return shop
  }

  /** Until such a share of the units has left. */
  async sold(share: number): Promise<void> {
    const { stock, units } = this.sale
    const left = async () => (await stock.numbers(REF)).available <= units * (1 - share)
    await until(`${share * 100} % are sold`, left, 60_000)
  }

  /** What is broken when it begins, and mended when it ends: the figures of a verdict are about this time. */
  async during(broken: () => Promise<void>): Promise<void> {
    const from = performance.now()
    this.fault = { from, to: Number.POSITIVE_INFINITY }
    try {
      await broken()
    } finally {
      this.fault = { from, to: performance.now() }
    }
  }

  /** As long as what is broken stays so. */
  async outage(): Promise<void> {
    await sleep(this.size.outageMs)
  }

  /** What must hold beside that which is asked of every sale. */
  expect(holds: boolean, otherwise: string): void {
    if (!holds) this.breaches.push(otherwise)
  }

  close(): Promise<void> {
    return close(this.closers)
  }
}

function brokerOf({ broker }: Ground): Broker {
  if (broker) return broker
  throw new Error('a scenario with a broker says so in `needs`')
}

/** What was opened last first; one that fails does not keep the others open. */
async function close(closers: (() => Promise<unknown>)[]): Promise<void> {
  const failed: unknown[] = []
  for (const closer of closers.splice(0).reverse())
    await closer().catch((error: unknown) => failed.push(error))
  if (failed.length > 0) throw failed[0]
}

/** As a shop should have it: a user who may read and write its tables, and nothing on a read-only server. */
async function shopUser({ address, knex }: FreshDatabase): Promise<DatabaseAddress> {
  if (address.kind !== 'mariadb') return address
  const user = { user: address.database, password: 'shop' }
  const name = `${user.user}@'${LOOPBACK}'`
  await knex.raw(`CREATE USER ${name} IDENTIFIED BY '${user.password}'`)
  await knex.raw(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${address.database}.* TO ${name}`)
  return { ...address, ...user }
}
