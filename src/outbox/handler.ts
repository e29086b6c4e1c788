import { follow, within } from '../core/background.js'
import { isHandled } from '../core/hand-over.js'
import type { DueMessage, OutboxHandler } from '../core/outbox.js'
import type { Handled } from '../core/queue.js'

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
  const unfollow = follow(abort, ...o.signals)
  try {
    const running = (async () => handler(messages, { signal: abort.signal }))()
    const said = await within(running, o.limitMs, () => {
      abort.abort()
      throw new Error(`the handler took longer than ${o.limitMs} ms`)
    })
    return answers(said, messages.length)
  } finally {
    unfollow()
  }
}

function answers(said: unknown, count: number): readonly Handled[] {
  const each = Array.isArray(said) ? said : Array(count).fill(said ?? 'ack')
  if (each.length === count && each.every(isHandled)) return each
  throw new NoAnswer("the handler must return 'ack', 'retry' or 'dead', or one of them for each")
}
