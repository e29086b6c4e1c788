import type { Knex } from 'knex'
import { SimpleConsumer } from 'rocketmq-client-nodejs'
import { survivesBrokers } from '../harness/rocketmq-client.js'
import type { RocketmqServer } from '../harness/services/rocketmq.js'

/** A broker that asks after 2 s, and each second; by itself it does so after 6 s, and each 30 s. */
export const ASKING = { transactionTimeOut: '2000', transactionCheckInterval: '1000' }

export async function makeBookings(knex: Knex): Promise<void> {
  await knex.schema.createTable('bookings', (table) => table.string('biz_no', 128).primary())
}

/** A host's work: one row, committed. */
export async function book(knex: Knex, bizNo: string): Promise<string> {
  await knex.transaction((trx) => trx('bookings').insert({ biz_no: bizNo }))
  return bizNo
}

export async function isBooked(knex: Knex, bizNo: string): Promise<boolean> {
  return (await knex('bookings').where({ biz_no: bizNo })).length > 0
}

/** Reads a topic as any receiver does, until closed. */
export class Receiver {
  readonly #got: { readonly key: string | undefined; readonly body: string }[] = []
  readonly #reading: Promise<void>
  #isOpen = true

  private constructor(private readonly consumer: SimpleConsumer) {
    this.#reading = this.#read()
  }

  static async on(server: RocketmqServer, topic: string): Promise<Receiver> {
    const consumerGroup = `${topic}-receivers`
    await server.createGroup(consumerGroup)
    const logger = { debug() {}, info() {}, warn() {}, error() {}, close() {} }
    const consumer = survivesBrokers(
      new SimpleConsumer({
        ...{ endpoints: server.endpoints, namespace: '', logger, consumerGroup },
        subscriptions: new Map([[topic, '*']]),
        awaitDuration: 5_000,
      }),
    )
    await consumer.startup()
    return new Receiver(consumer)
  }

  /** Keys, each once: a message may come twice. */
  get keys(): readonly (string | undefined)[] {
    return [...new Set(this.#got.map(({ key }) => key))]
  }

  bodyOf(key: string): unknown {
    const body = this.#got.find((message) => message.key === key)?.body
    return body === undefined ? undefined : JSON.parse(body)
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#reading
    await this.consumer.shutdown()
  }

  async #read(): Promise<void> {
    while (this.#isOpen)
      try {
        for (const message of await this.consumer.receive(32, 30_000)) {
          this.#got.push({ key: message.keys[0], body: message.body.toString() })
          await this.consumer.ack(message)
        }
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 200)) // the broker is away
      }
  }
}
