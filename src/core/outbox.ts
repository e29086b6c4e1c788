import type { Handled } from './queue.js'
import type { Json } from './types.js'

/** Something to be told to the world once, if the transaction that wrote it commits. */
export interface OutboxMessage {
  /** Whose number it is among all messages: 1 to 128 characters from `!` to `~`. The receiver tells duplicates by it. */
  readonly bizNo: string
  /** 1 to 64 characters from `!` to `~` without `|`. */
  readonly topic: string
  readonly payload: Json
}

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

/** A message that is due, held by whoever took it. */
export interface LeasedMessage {
  readonly bizNo: string
  readonly topic: string
  /** JSON, as it was written. */
  readonly payload: string
  /** How often it was taken, this time included. More than 10: the last try began and never ended. */
  readonly attempt: number
  /** Names this taking; once somebody else has taken the message, what is said under this lease changes nothing. */
  readonly lease: string
}

/** A message, and why it could not be sent: at most the first 500 characters are kept. */
export interface FailedMessage {
  readonly message: LeasedMessage
  readonly error: string
}

/**
 * Messages written in somebody's transaction and sent afterwards, at least once, in no order. The storage's clock
 * decides what is due and when a lease ends. Late calls of a holder whose lease was lost do nothing.
 */
export interface Outbox {
  /** What is due of a topic, leased to the caller: nobody else is given it for `leaseMs`. Counts as a try. */
  take(o: {
    readonly topic: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly LeasedMessage[]>
  /** `leaseMs` from now. Returns those that are still the caller's. */
  renew(messages: readonly LeasedMessage[], leaseMs: number): Promise<readonly LeasedMessage[]>
  /** They were sent. */
  done(messages: readonly LeasedMessage[]): Promise<void>
  /** Due again after the pause for this many tries; those whose tries are used up are parked, and returned. */
  retry(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]>
  /** Set aside, each with a manual task in the same transaction. Returns those that were the caller's to park. */
  park(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]>
}
