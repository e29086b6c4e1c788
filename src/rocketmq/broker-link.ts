import { FlashSaleError } from '../core/errors.js'
import {
  clientOptions,
  missing,
  place,
  producerOptions,
  type RocketmqAddress,
  wrong,
} from './address.js'
import { Inbox } from './inbox.js'
import { ManagedClient } from './managed-client.js'
import type { RocketmqConsumer, RocketmqModule, RocketmqProducer } from './sdk.js'
import { requireTopic } from './topic.js'

export interface BrokerLinkOptions extends RocketmqAddress {
  readonly group: string | undefined
  readonly sendTimeoutMs: number
  readonly invisibleMs: number
  readonly startTimeoutMs: number
  readonly onError: (error: unknown) => void
}

/** Of a receive, the time to answer after the broker has waited for messages; of acknowledgements and renewals, all. */
const CONSUMER_REQUEST_MS = 3_000
/** A proxy waits 5 s at least, whatever it is asked; a client that gives up earlier fails each receive. */
const AWAIT_MS = 5_000

/** The started clients of one queue: a producer, and with a group a consumer. */
export class BrokerLink {
  readonly producer: RocketmqProducer
  readonly consumer: { readonly client: RocketmqConsumer; readonly inbox: Inbox } | null

  private constructor(
    producer: ManagedClient<RocketmqProducer>,
    consumer: ManagedClient<RocketmqConsumer> | null,
    o: BrokerLinkOptions,
  ) {
    this.clients = consumer ? [producer, consumer] : [producer]
    this.producer = producer.client
    this.consumer = consumer && {
      client: consumer.client,
      inbox: new Inbox(consumer.client, o.invisibleMs),
    }
  }

  private readonly clients: readonly ManagedClient<RocketmqProducer | RocketmqConsumer>[]

  /** Meets a wrong address, topic or group now and not in the sale. Leaves nothing open when it rejects. */
  static async open(module: RocketmqModule, o: BrokerLinkOptions): Promise<BrokerLink> {
    const until = performance.now() + o.startTimeoutMs
    const restMs = () => Math.max(1, until - performance.now())
    const producer = new ManagedClient(new module.Producer(producerOptions(o) as never), o.onError)
    const consumer = o.group === undefined ? null : consumerOf(module, o)
    const link = new BrokerLink(producer, consumer, o)
    try {
      await producer.start(restMs(), () => `${place(o)} did not answer`)
      await requireTopic(producer, o, 'FIFO', until)
      if (consumer) {
        await startConsumer(consumer, restMs(), o)
        if (consumer.fifoGroup) throw wrong(o, `consumer group ${o.group} delivers in order`, ORDER)
      }
      return link
    } catch (error) {
      await link.close(0)
      throw error
    }
  }

  async close(ms: number): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close(ms)))
  }
}

const ORDER =
  'one that does not is needed, since in order a failed message blocks and repeats those behind it'

function consumerOf(module: RocketmqModule, o: BrokerLinkOptions) {
  const options = {
    ...clientOptions(o),
    consumerGroup: o.group,
    subscriptions: new Map([[o.topic, '*']]),
    requestTimeout: CONSUMER_REQUEST_MS,
    awaitDuration: AWAIT_MS,
    maxRetryAttempts: 1,
  }
  return new ManagedClient(new module.SimpleConsumer(options as never), o.onError)
}

async function startConsumer(
  consumer: ManagedClient<RocketmqConsumer>,
  ms: number,
  o: BrokerLinkOptions,
): Promise<void> {
  const late = () => `${place(o)} did not accept consumer group ${o.group}; does it exist?`
  try {
    await consumer.start(ms, late)
  } catch (error) {
    if (error instanceof FlashSaleError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw missing(o, `consumer group ${o.group} does not exist or is refused`, why, error)
  }
}
