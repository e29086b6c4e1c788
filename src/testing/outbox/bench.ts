import { equal, fail } from 'node:assert/strict'
import { within } from '../../core/background.js'
import { isHandled } from '../../core/hand-over.js'
import type { DueMessage, OutboxMessage } from '../../core/outbox.js'
import type { Handled } from '../../core/queue.js'
import type { OutboxHandlerUnderTest } from '../outbox-handler-suite.js'

/** How long a group may take before it counts as one that never ends. */
const PATIENCE_MS = 10_000

const THREW = Symbol('threw')

/** What became of each message, by number. */
export type Fates = ReadonlyMap<string, Handled>

/** A host's handler on the bench, behind the library's own delivery. */
export class HandlerBench {
  constructor(readonly under: OutboxHandlerUnderTest) {}

  messages(count: number): readonly OutboxMessage[] {
    const messages = Array.from({ length: count }, () => this.under.message())
    const numbers = new Set(messages.map(({ bizNo }) => bizNo))
    equal(numbers.size, count, 'message() must give each a number of its own')
    return messages
  }

  /** One group as the dispatcher hands it over: in halves after a throw, until the message at fault is alone. */
  async deliver(
    messages: readonly OutboxMessage[],
    o: { readonly attempt?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Fates> {
    const { attempt = 1, signal = new AbortController().signal } = o
    const fates = new Map<string, Handled>()
    const handOver = async (due: readonly DueMessage[]): Promise<void> => {
      const handled = await this.#call(due, signal)
      if (handled === THREW && due.length > 1) {
        const middle = Math.ceil(due.length / 2)
        await handOver(due.slice(0, middle))
        await handOver(due.slice(middle))
      } else
        due.forEach(({ bizNo }, i) => {
          fates.set(bizNo, handled === THREW ? 'retry' : (handled[i] as Handled))
        })
    }
    await handOver(
      messages.map(({ bizNo, topic, payload }) => ({
        ...{ bizNo, topic, attempt },
        payload: JSON.parse(JSON.stringify(payload)),
      })),
    )
    return fates
  }

  async #call(
    due: readonly DueMessage[],
    signal: AbortSignal,
  ): Promise<readonly Handled[] | typeof THREW> {
    const running = (async () => this.under.handler(due, { signal }))()
    const said = await within(
      running.catch((): typeof THREW => THREW),
      PATIENCE_MS,
      () => fail(`the handler was not over within ${PATIENCE_MS} ms`),
    )
    if (said === THREW) return said
    const each: readonly unknown[] = Array.isArray(said) ? said : due.map(() => said ?? 'ack')
    if (each.length !== due.length || !each.every(isHandled))
      return fail(`the handler returned ${JSON.stringify(said)} for ${due.length} messages`)
    return each
  }

  /** All of them were sent, and are in effect once. */
  async sent(messages: readonly OutboxMessage[], fates: Fates, after: string): Promise<void> {
    for (const { bizNo } of messages) {
      equal(fates.get(bizNo), 'ack', `what became of ${bizNo} after ${after}`)
      await this.received(bizNo, 1, after)
    }
  }

  async received(bizNo: string, times: number, after: string): Promise<void> {
    const found = await this.under.received(bizNo)
    equal(found, times, `how often ${bizNo} is in effect after ${after}`)
  }

  async close(): Promise<void> {
    await this.under.close()
  }
}
