import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'

/** Where a topic is, and how to get there; options of whatever speaks to RocketMQ. */
export interface RocketmqAddress {
  /** Of the proxy's gRPC port, `host:port`; several are separated by `;`. */
  readonly endpoints: string
  readonly topic: string
  /** TLS to the proxy. @defaultValue false */
  readonly sslEnabled?: boolean
  /** For a proxy with access control. */
  readonly sessionCredentials?: { readonly accessKey: string; readonly accessSecret: string }
}

export function addressOf(o: RocketmqAddress): RocketmqAddress {
  return {
    endpoints: check.text(o.endpoints, 'option endpoints', 1_000),
    topic: check.text(o.topic, 'option topic', 127),
    sslEnabled: o.sslEnabled === true,
    ...(o.sessionCredentials ? { sessionCredentials: o.sessionCredentials } : {}),
  }
}

/** The client takes no less. */
const LEAST_REQUEST_MS = 1_000
/** The client's own one writes files under the home directory; what matters reaches `onError`. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {}, close() {} }

/** What every client is made with. */
export const clientOptions = ({ endpoints, sslEnabled, sessionCredentials }: RocketmqAddress) => ({
  ...{ endpoints, namespace: '', logger: SILENT, sslEnabled },
  ...(sessionCredentials ? { sessionCredentials } : {}),
})

/** What every producer is made with. */
export function producerOptions(o: RocketmqAddress & { readonly sendTimeoutMs: number }) {
  return {
    ...clientOptions(o),
    requestTimeout: Math.max(LEAST_REQUEST_MS, o.sendTimeoutMs),
    maxAttempts: 1, // a repetition is the caller's business; the client's own would come after the deadline
    // No topics: with several of them its startup hangs, and asking for the route makes the topic known as well.
  }
}

export const place = ({ endpoints, topic }: RocketmqAddress) =>
  `RocketMQ at ${endpoints} (topic ${topic})`

export const missing = (o: RocketmqAddress, what: string, why: string, cause: unknown) =>
  new FlashSaleError('QUEUE_UNAVAILABLE', `RocketMQ at ${o.endpoints}: ${what}: ${why}`, { cause })

export const wrong = (o: RocketmqAddress, what: string, why: string) =>
  new FlashSaleError('BAD_OPTION', `RocketMQ at ${o.endpoints}: ${what}: ${why}`)
