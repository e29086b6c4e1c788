import { pause, within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import { Inbox } from './inbox.js'
import { ManagedClient } from './managed-client.js'
import type { RocketmqConsumer, RocketmqModule, RocketmqProducer, Route } from './sdk.js'

export interface BrokerAddress {
  readonly endpoints: string
  readonly topic: string
  readonly group: string | undefined
  readonly sslEnabled: boolean
  readonly sessionCredentials:
    | { readonly accessKey: string; readonly accessSecret: string }
    | undefined
}

export interface BrokerLinkOptions extends BrokerAddress {
  readonly sendTimeoutMs: number
  readonly invisibleMs: number
  readonly startTimeoutMs: number
  readonly onError: (error: unknown) => void
}

const FIFO = 2
/** The client takes no less. */
const LEAST_REQUEST_MS = 1_000
/** Of a receive, the time to answer after the broker has waited for messages; of acknowledgements and renewals, all. */
const CONSUMER_REQUEST_MS = 3_000
/** A proxy waits 5 s at least, whatever it is asked; a client that gives up earlier fails each receive. */
const AWAIT_MS = 5_000
/** The client's own one writes files under the home directory; what matters reaches `onError`. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {}, close() {} }

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
    const producer = producerOf(module, o)
    const consumer = o.group === undefined ? null : consumerOf(module, o)
    const link = new BrokerLink(producer, consumer, o)
    try {
      await producer.start(restMs(), () => `${place(o)} did not answer`)
      checkRoute(await routeOf(producer, o, until), o)
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

function producerOf(module: RocketmqModule, o: BrokerLinkOptions) {
  const options = {
    ...common(o),
    requestTimeout: Math.max(LEAST_REQUEST_MS, o.sendTimeoutMs),
    maxAttempts: 1, // a repetition is the relay's business; the client's own would come after the deadline
    // No topics: with several of them its startup hangs, and the first send asks for the route anyway.
  }
  return new ManagedClient(new module.Producer(options as never), o.onError)
}

function consumerOf(module: RocketmqModule, o: BrokerLinkOptions) {
  const options = {
    ...common(o),
    consumerGroup: o.group,
    subscriptions: new Map([[o.topic, '*']]),
    requestTimeout: CONSUMER_REQUEST_MS,
    awaitDuration: AWAIT_MS,
    maxRetryAttempts: 1,
  }
  return new ManagedClient(new module.SimpleConsumer(options as never), o.onError)
}

const common = ({ endpoints, sslEnabled, sessionCredentials }: BrokerLinkOptions) => ({
  ...{ endpoints, namespace: '', logger: SILENT, sslEnabled },
  ...(sessionCredentials ? { sessionCredentials } : {}),
})

/** Asks again while the broker does not answer: it may be starting too. */
async function routeOf(
  producer: ManagedClient<RocketmqProducer>,
  o: BrokerLinkOptions,
  until: number,
): Promise<Route> {
  let last: unknown
  for (;;) {
    const restMs = until - performance.now()
    if (restMs <= 0)
      throw new FlashSaleError('QUEUE_UNAVAILABLE', `${place(o)} did not answer`, { cause: last })
    try {
      const route = await within(producer.route(o.topic), restMs, () => null)
      if (route) return route
    } catch (cause) {
      const { code, message } = cause as { readonly code?: unknown; readonly message?: unknown }
      // The proxy's own codes have five digits, gRPC's at most two.
      if (typeof code === 'number' && code >= 40_000 && code < 50_000)
        throw missing(o, `topic ${o.topic} does not exist or is refused`, String(message), cause)
      last = cause
    }
    await pause(Math.min(200, restMs), NEVER)
  }
}

const NEVER = new AbortController().signal

function checkRoute({ messageQueues }: Route, o: BrokerLinkOptions): void {
  if (messageQueues.some((queue) => queue.acceptMessageTypesList.includes(FIFO))) return
  throw wrong(o, `topic ${o.topic} takes no FIFO messages`, 'make it with +message.type=FIFO')
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

const place = ({ endpoints, topic }: BrokerAddress) => `RocketMQ at ${endpoints} (topic ${topic})`

const missing = (o: BrokerAddress, what: string, why: string, cause: unknown) =>
  new FlashSaleError('QUEUE_UNAVAILABLE', `RocketMQ at ${o.endpoints}: ${what}: ${why}`, { cause })

const wrong = (o: BrokerAddress, what: string, why: string) =>
  new FlashSaleError('BAD_OPTION', `RocketMQ at ${o.endpoints}: ${what}: ${why}`)
