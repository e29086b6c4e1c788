import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { type IHeaders, Kafka, logLevel } from 'kafkajs'
import { Producer, SimpleConsumer } from 'rocketmq-client-nodejs'
import { afterEach, describe, expect, it } from 'vitest'
import { freshDatabase } from '../harness/databases.js'
import { accepts, LOOPBACK, until } from '../harness/net.js'
import { runningProcesses } from '../harness/process.js'
import { survivesBrokers } from '../harness/rocketmq-client.js'
import type { RocketmqServer } from '../harness/services/rocketmq.js'
import { startKafka, startMysql, startNginx, startRocketmq } from '../harness/services.js'

const cleanUps: (() => unknown)[] = []
const cleanUp = async () => {
  for (const act of cleanUps.splice(0).reverse()) await act()
}
afterEach(cleanUp)

/** The client's own logger writes files under the home directory. */
const logger = { debug() {}, info() {}, warn() {}, error() {}, close() {} }

const left = () => runningProcesses().map((process) => process.name)

/** Of this process, by what is in the name. */
const scratchOf = (purpose: string) =>
  readdirSync(tmpdir()).filter((name) => name.includes(`${process.pid}-${purpose}-`))

describe('RocketMQ', () => {
  const client = (server: RocketmqServer) => ({
    ...{ endpoints: server.endpoints, namespace: '', logger, requestTimeout: 5_000 },
  })

  async function producer(server: RocketmqServer): Promise<Producer> {
    const made = survivesBrokers(new Producer({ ...client(server), maxAttempts: 1 }))
    await made.startup()
    cleanUps.push(() => made.shutdown())
    return made
  }

  async function consumer(server: RocketmqServer, topic: string, consumerGroup: string) {
    const made = new SimpleConsumer({
      ...client(server),
      ...{ consumerGroup, subscriptions: new Map([[topic, '*']]), awaitDuration: 3_000 },
    })
    await made.startup()
    cleanUps.push(() => made.shutdown())
    return made
  }

  /** Until so many have come, and in their order. */
  async function receive(from: SimpleConsumer, count: number): Promise<string[]> {
    const bodies: string[] = []
    await until(`${count} messages have come`, async () => {
      for (const message of await from.receive(32, 15_000)) {
        bodies.push(message.body.toString())
        await from.ack(message)
      }
      return bodies.length >= count
    })
    return bodies
  }

  it('passes messages, keeps them over kill -9, freezes, tells its lag and leaves nothing', async () => {
    const begun = performance.now()
    const server = await startRocketmq()
    cleanUps.push(() => server.stop())
    console.log(`RocketMQ started in ${seconds(begun)}`)
    expect(beyondLoopback(server.pid)).toEqual([])

    await server.createTopic('orders', { type: 'FIFO' })
    await server.createGroup('workers', { fifo: true, retries: 3 })
    const send = async (by: Producer, body: string) =>
      by.send({ topic: 'orders', messageGroup: 'sku', body: Buffer.from(body) })

    const first = await producer(server)
    await send(first, 'one')
    await send(first, '二')
    await server.kill('SIGKILL')
    expect(server.isAlive()).toBe(false)
    await expect(send(first, 'nobody hears this')).rejects.toThrow()

    const again = performance.now()
    await server.restart()
    console.log(`RocketMQ restarted after kill -9 in ${seconds(again)}`)
    // gRPC waits a second and more before it connects again, and rejects meanwhile.
    await until('the producer is connected again', async () => {
      await send(first, 'three')
      return true
    })
    const worker = await consumer(server, 'orders', 'workers')
    expect(await receive(worker, 3)).toEqual(['one', '二', 'three'])

    await server.kill('SIGSTOP')
    const late = send(first, 'four')
    const outcome = await Promise.race([late.then(() => 'sent'), pause(1_000)])
    expect(outcome).toBe('nothing')
    await server.kill('SIGCONT')
    await late
    await until('the lag is one message', async () => {
      const text = await (await fetch(server.metricsUrl)).text()
      return /^rocketmq_consumer_lag_messages\{.*consumer_group="workers".*\} 1\.0/m.test(text)
    })

    await cleanUp()
    expect([...left(), ...scratchOf('rocketmq')]).toEqual([])
    await expect(server.restart()).rejects.toThrow('stopped')
  })
})

describe('Kafka', () => {
  it('passes messages, keeps them over kill -9 and over a restart, and leaves nothing', async () => {
    const begun = performance.now()
    const server = await startKafka()
    cleanUps.push(() => server.stop())
    console.log(`Kafka started in ${seconds(begun)}`)
    expect(beyondLoopback(server.pid)).toEqual([])
    await server.createTopic('orders')

    const kafka = new Kafka({ brokers: server.brokers, logLevel: logLevel.NOTHING })
    const producer = kafka.producer({ idempotent: true })
    await producer.connect()
    cleanUps.push(() => producer.disconnect())
    const send = (value: string, headers: IHeaders = {}) =>
      producer.send({ topic: 'orders', messages: [{ key: 'sku', value, headers }] })
    await send('one')
    await send('二', { trace: 'yes' })
    await server.kill('SIGKILL')
    const again = performance.now()
    await server.restart()
    console.log(`Kafka restarted after kill -9 in ${seconds(again)}`)
    await send('three')
    await server.restart()

    const consumer = kafka.consumer({ groupId: 'workers' })
    await consumer.connect()
    cleanUps.push(() => consumer.disconnect())
    await consumer.subscribe({ topic: 'orders', fromBeginning: true })
    const values: string[] = []
    await consumer.run({
      eachMessage: async ({ message }) => void values.push(String(message.value)),
    })
    await until('all three have come', () => values.length === 3)
    expect(values).toEqual(['one', '二', 'three'])

    await cleanUp()
    expect([...left(), ...scratchOf('kafka')]).toEqual([])
  })
})

describe('MySQL', () => {
  it('is version 9, lets the app in over caching_sha2_password and keeps commits over kill -9', async () => {
    const begun = performance.now()
    const server = await startMysql()
    cleanUps.push(() => server.stop())
    console.log(`MySQL started in ${seconds(begun)}`)
    expect(beyondLoopback(server.pid)).toEqual([])
    const { knex, destroy } = await freshDatabase('mysql', { server })
    cleanUps.push(destroy)
    const [[row]] = await knex.raw(
      "SELECT VERSION() AS version, plugin FROM mysql.user WHERE user = 'app'",
    )
    expect(row).toEqual({
      version: expect.stringMatching(/^9\./),
      plugin: 'caching_sha2_password',
    })
    await knex.schema.createTable('t', (t) => t.string('word', 10))
    await knex('t').insert({ word: '秒杀🔥' })
    await server.kill('SIGKILL')
    await expect(knex('t').select()).rejects.toThrow()
    await server.restart()
    expect(await knex('t').select('word')).toEqual([{ word: '秒杀🔥' }])
    await cleanUp()
    expect([...left(), ...scratchOf('mysql')]).toEqual([])
  })
})

describe('nginx', () => {
  async function backend(): Promise<number> {
    const http = createServer((request, response) => response.end(`you asked for ${request.url}`))
    await new Promise<void>((resolve) => http.listen(0, LOOPBACK, resolve))
    cleanUps.push(() => http.close())
    return (http.address() as AddressInfo).port
  }

  it('proxies, limits, and comes back after kill -9', async () => {
    const behind = await backend()
    const server = await startNginx({
      config: (port) => `
        limit_req_zone $binary_remote_addr zone=buyers:1m rate=1r/m;
        server {
          listen 127.0.0.1:${port};
          location / { proxy_pass http://127.0.0.1:${behind}; }
          location /limited { limit_req zone=buyers; limit_req_status 429; return 204; }
          location /once { limit_req zone=buyers; limit_req_status 429; proxy_pass http://127.0.0.1:${behind}; }
        }`,
    })
    cleanUps.push(() => server.stop())
    const url = `http://127.0.0.1:${server.port}`
    expect(await (await fetch(`${url}/orders`)).text()).toBe('you asked for /orders')
    expect((await fetch(`${url}/once`)).status).toBe(200)
    expect((await fetch(`${url}/once`)).status).toBe(429)

    await server.kill('SIGKILL')
    await until('nobody listens', async () => !(await accepts(server.port)), 2_000)
    await server.restart()
    expect((await fetch(`${url}/once`)).status).toBe(200)
    await cleanUp()
    expect([...left(), ...scratchOf('nginx')]).toEqual([])
  })

  it('says what is wrong with its configuration', async () => {
    await expect(startNginx({ config: () => 'no_such_word on;' })).rejects.toThrow(/no_such_word/)
  })
})

const seconds = (since: number) => `${((performance.now() - since) / 1_000).toFixed(1)} s`

const pause = (ms: number) =>
  new Promise<'nothing'>((resolve) => setTimeout(() => resolve('nothing'), ms))

/** Of a process, the listening sockets that take connections from elsewhere, as /proc/net writes their addresses. */
function beyondLoopback(pid: number): string[] {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]
      } catch {
        return undefined // closed meanwhile
      }
    }),
  )
  const LISTEN = '0A'
  return ['tcp', 'tcp6']
    .flatMap((kind) => readFileSync(`/proc/net/${kind}`, 'utf8').split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === LISTEN && sockets.has(inode))
    .map(([, address = '']) => address)
    .filter((address) => !/^(0{16}FFFF0{4})?0100007F:/.test(address))
}
