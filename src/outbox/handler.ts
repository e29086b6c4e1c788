import { within } from '../core/background.js'
import { isHandled } from '../core/hand-over.js'
import type { OutboxMessage } from '../core/outbox.js'
import type { Handled } from '../core/queue.js'

/** A message as a handler sees it. */
export interface DueMessage extends OutboxMessage {
  /** How often it was taken, 1 the first time. */
  readonly attempt: number
}

/**
 * Sends messages of one topic. Returns what became of them: nothing or `ack` when all were sent, `retry` when none could
 * be (the broker is away), or an answer for each in their order; `dead` is parked at once. After a throw the group is
 * halved, again and again, until the message at fault is alone and the others are sent.
 *
 * A message may come again although it was sent: the receiver tells by `bizNo`. `signal` aborts when the handler has taken
 * too long, when the messages are another process' by now, and when a `stop` has waited long enough.
 */
export type OutboxHandler = (
  messages: readonly DueMessage[],
  o: { readonly signal: AbortSignal },
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that sent everything returns nothing
) => Promise<void | Handled | readonly Handled[]>

/** What a handler returned is no answer; whether anything was sent, nobody knows. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

/** One call of a handler: an answer for each message, or a throw. Past the limit it throws; the work itself may go on. */
export async function call(
  handler: OutboxHandler,
  messages: readonly DueMessage[],
  o: { readonly limitMs: number; readonly signals: readonly AbortSignal[] },
): Promise<readonly Handled[]> {
  const abort = new AbortController()
  const pass = () => abort.abort()
  for (const signal of o.signals) {
    if (signal.aborted) pass()
    signal.addEventListener('abort', pass, { once: true })
  }
  try {
    const running = (async () => handler(messages, { signal: abort.signal }))()
    const said = await within(running, o.limitMs, () => {
      abort.abort()
      throw new Error(`the handler took longer than ${o.limitMs} ms`)
    })
    return answers(said, messages.length)
  } finally {
    for (const signal of o.signals) signal.removeEventListener('abort', pass)
  }
}

function answers(said: unknown, count: number): readonly Handled[] {
  const each = Array.isArray(said) ? said : Array(count).fill(said ?? 'ack')
  if (each.length === count && each.every(isHandled)) return each
  throw new NoAnswer("the handler must return 'ack', 'retry' or 'dead', or one of them for each")
}
