import { handOver } from '../core/hand-over.js'
import { parseBatch } from '../core/message.js'
import type { BatchHandler, Handled } from '../core/queue.js'
import type { Batch } from '../core/types.js'
import type { KafkaMessage } from './client.js'
import type { Progress } from './progress.js'

export interface SettleOptions {
  readonly handler: BatchHandler
  readonly maxAttempts: number
  /** Puts a message into the dead topic, if there is one. False: it could not, and is tried again. */
  readonly bury: (message: KafkaMessage, why: string) => Promise<boolean>
  /** Must not throw. */
  readonly onDead: (message: Batch | string, why: string) => void
}

/**
 * Hands a group over and writes into `progress` what becomes of each message. One that nobody can read, or that was handed
 * out often enough and never settled, is seen by no handler.
 */
export async function settle(
  o: SettleOptions,
  messages: readonly KafkaMessage[],
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  const dead = async (message: KafkaMessage, told: Batch | string, why: string) => {
    if (!(await o.bury(message, why))) return progress.again(message.offset)
    progress.settle(message.offset)
    o.onDead(told, why)
  }
  const conclude = async (message: KafkaMessage, batch: Batch, handled: Handled) => {
    const attempt = progress.attempt(message.offset)
    if (handled === 'ack') progress.settle(message.offset)
    else if (handled === 'dead') await dead(message, batch, 'set aside by the consumer')
    else if (attempt < o.maxAttempts) progress.again(message.offset)
    else await dead(message, batch, `tried ${attempt} times`)
  }
  const fit: { readonly message: KafkaMessage; readonly batch: Batch }[] = []
  for (const message of messages) {
    const text = message.value?.toString('utf8') ?? ''
    const batch = read(text)
    const attempt = progress.attempt(message.offset)
    if (typeof batch === 'string') await dead(message, text, batch)
    else if (attempt <= o.maxAttempts) fit.push({ message, batch })
    else await dead(message, batch, `handed out ${attempt - 1} times and never settled`)
  }
  if (fit.length === 0) return
  const attempt = Math.max(...fit.map(({ message }) => progress.attempt(message.offset)))
  const batches = fit.map(({ batch }) => batch)
  const handled = await handOver(o.handler, { batches, attempt, signal })
  for (const [i, { message, batch }] of fit.entries())
    await conclude(message, batch, handled[i] ?? 'retry')
}

/** A batch, or why it is none. */
function read(text: string): Batch | string {
  try {
    return parseBatch(text)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
