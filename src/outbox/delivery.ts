import { describe } from '../core/describe.js'
import { parseJson } from '../core/json.js'
import type {
  DueMessage,
  FailedMessage,
  LeasedMessage,
  Outbox,
  OutboxHandler,
} from '../core/outbox.js'
import type { Handled } from '../core/queue.js'
import { MAX_TRIES } from '../core/tries.js'
import { call, NoAnswer } from './handler.js'
import { Holding } from './holding.js'

interface DeliveryOptions {
  readonly outbox: Outbox
  readonly handler: OutboxHandler
  readonly leaseMs: number
  readonly limitMs: number
  /** No further call begins. */
  readonly stopping: AbortSignal
  /** The calls that run must end. */
  readonly cut: AbortSignal
  readonly onParked: (failed: FailedMessage) => void
  readonly onError: (error: unknown) => void
}

/** Hands over what was taken together, under a lease that is kept, and settles each message as soon as its fate is known. */
export async function deliver(
  messages: readonly LeasedMessage[],
  o: DeliveryOptions,
): Promise<void> {
  const { outbox, leaseMs, onError } = o
  const holding = new Holding({ outbox, messages, leaseMs, onError })
  try {
    await new Delivery(o, holding).run(messages)
  } finally {
    await holding.end()
  }
}

interface Item {
  readonly message: LeasedMessage
  readonly due: DueMessage
}

class Delivery {
  constructor(
    private readonly o: DeliveryOptions,
    private readonly holding: Holding,
  ) {}

  async run(messages: readonly LeasedMessage[]): Promise<void> {
    const items: Item[] = []
    for (const message of messages) {
      const { bizNo, topic, attempt } = message
      const payload = parseJson(message.payload)
      if (attempt > MAX_TRIES)
        await this.settle([message], ['dead'], 'its last try began and never ended')
      else if (payload === undefined)
        await this.settle([message], ['dead'], 'the payload is not JSON')
      else items.push({ message, due: { bizNo, topic, payload, attempt } })
    }
    if (items.length > 0) await this.handOver(items)
  }

  private async handOver(items: readonly Item[]): Promise<void> {
    const { handler, limitMs, cut } = this.o
    const { lost } = this.holding
    const messages = items.map((item) => item.message)
    if (this.over) return this.giveBack(messages, 'it was not sent before the stop')
    const due = items.map((item) => item.due)
    let handled: readonly Handled[]
    try {
      handled = await call(handler, due, { limitMs, signals: [lost, cut] })
    } catch (error) {
      const whole = items.length === 1 || error instanceof NoAnswer
      if (whole || this.over) return this.giveBack(messages, describe(error))
      const middle = Math.ceil(items.length / 2)
      await this.handOver(items.slice(0, middle))
      await this.handOver(items.slice(middle))
      return
    }
    await this.settle(messages, handled, 'the handler said so')
  }

  /** No further call begins, be it with what was taken while the stop came, or with the halves of a group. */
  private get over(): boolean {
    const { stopping, cut } = this.o
    return stopping.aborted || cut.aborted || this.holding.lost.aborted
  }

  private giveBack(messages: readonly LeasedMessage[], error: string): Promise<void> {
    return this.settle(messages, Array(messages.length).fill('retry'), error)
  }

  private async settle(
    messages: readonly LeasedMessage[],
    handled: readonly Handled[],
    error: string,
  ): Promise<void> {
    const of = (answer: Handled) => messages.filter((_, i) => handled[i] === answer)
    const failed = (answer: Handled) => of(answer).map((message) => ({ message, error }))
    const { outbox, onParked } = this.o
    const [sent, again, dead] = [of('ack'), failed('retry'), failed('dead')]
    if (sent.length > 0) await outbox.done(sent)
    for (const parked of again.length > 0 ? await outbox.retry(again) : []) onParked(parked)
    for (const parked of dead.length > 0 ? await outbox.park(dead) : []) onParked(parked)
    this.holding.settled(messages)
  }
}
