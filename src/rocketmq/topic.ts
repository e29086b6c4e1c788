import { pause, within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import { missing, place, type RocketmqAddress, wrong } from './address.js'
import type { ManagedClient } from './managed-client.js'
import type { RocketmqProducer, Route } from './sdk.js'

/** The protocol's numbers of the message types. */
const TYPES = { FIFO: 2, TRANSACTION: 4 }

/**
 * Meets a wrong address or topic now and not in the sale. Asks again while the broker does not answer, until `until`
 * (`performance.now()`): it may be starting too.
 */
export async function requireTopic(
  producer: ManagedClient<RocketmqProducer>,
  o: RocketmqAddress,
  type: keyof typeof TYPES,
  until: number,
): Promise<void> {
  const { messageQueues } = await routeOf(producer, o, until)
  if (messageQueues.some((queue) => queue.acceptMessageTypesList.includes(TYPES[type]))) return
  throw wrong(o, `topic ${o.topic} takes no ${type} messages`, `make it with +message.type=${type}`)
}

async function routeOf(
  producer: ManagedClient<RocketmqProducer>,
  o: RocketmqAddress,
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
