import type { Knex } from 'knex'
import * as check from '../../core/check.js'
import type { FailedMessage, LeasedMessage, Outbox, OutboxMessage } from '../../core/outbox.js'
import type { Audit } from '../../core/types.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { add } from './add.js'
import * as input from './input.js'
import { Messages } from './messages.js'
import { type ParkedMessage, parked, requeue } from './parked.js'
import { purge } from './purge.js'

/**
 * The local message table (`local_message`): a message written in the transaction of what it tells, sent afterwards by
 * an `OutboxDispatcher`. `KnexOrderBook.migrate` makes the table. Every method checks its input first (`BAD_INPUT`,
 * before any I/O); but for `add` each is a transaction of its own, safe to repeat, and throws what `KnexOrderBook` throws.
 */
export class KnexOutbox implements Outbox {
  readonly #database: Database
  readonly #messages: Messages

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
    this.#messages = new Messages(this.#database)
  }

  /**
   * Writes a message in the caller's transaction: it will be sent if that commits. `payload` is at most 60,000 bytes of
   * JSON. The same number again with the same topic and payload adds nothing and returns false; with others it throws
   * `BAD_INPUT`, and the transaction may go on.
   *
   * When somebody else adds the same number at that moment, the call waits for the end of his transaction.
   *
   * @throws FlashSaleError `BAD_INPUT`, also for a topic `seckill.…` and a number `release:…`, which are the library's ·
   * `DB_BUSY`, `DB_UNAVAILABLE`: repeat your transaction as a whole
   */
  async add(trx: Knex.Transaction, message: OutboxMessage): Promise<boolean> {
    return add(this.#database.tables.message, trx, input.newMessage(message))
  }

  /** `limit` 1 to 1,000, `leaseMs` 1 to 3,600,000. The longest due first. */
  async take(o: {
    readonly topic: string
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly LeasedMessage[]> {
    return this.#messages.take(input.taking(o))
  }

  async renew(
    messages: readonly LeasedMessage[],
    leaseMs: number,
  ): Promise<readonly LeasedMessage[]> {
    return this.#messages.renew(input.leased(messages), input.leaseMs(leaseMs))
  }

  async done(messages: readonly LeasedMessage[]): Promise<void> {
    await this.#messages.done(input.leased(messages))
  }

  /** Pauses of 1 s, 5 s, 30 s, 2 min, then 10 min each; parked after the tenth try. */
  async retry(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]> {
    return this.#messages.giveBack(input.failed(failed), { park: 'spent' })
  }

  async park(failed: readonly FailedMessage[]): Promise<readonly FailedMessage[]> {
    return this.#messages.giveBack(input.failed(failed), { park: 'all' })
  }

  /** What waits for a person, the longest parked first. `limit` 1 to 400. */
  async parked(o: { readonly limit: number }): Promise<readonly ParkedMessage[]> {
    check.object(o, 'options')
    return parked(this.#database, check.int(o.limit, 'limit', 1, input.MAX_PUT_BACK))
  }

  /**
   * Puts parked messages (at most 400 numbers) back: due at once, with ten tries before them. Resolves their manual tasks,
   * with an audit row, in one transaction. Returns the numbers that were parked; others are left as they are.
   */
  async requeue(bizNos: readonly string[], audit: Audit): Promise<readonly string[]> {
    return requeue(this.#database, input.bizNos(bizNos), check.audit(audit))
  }

  /**
   * Deletes messages that were sent more than `olderThanMs` (a minute at least) ago, in portions of 1,000, and returns how
   * many. A purged number may be added again: keep them longer than anybody repeats a transaction.
   */
  async purge(olderThanMs: number): Promise<number> {
    return purge(
      this.#database,
      check.int(olderThanMs, 'olderThanMs', 60_000, Number.MAX_SAFE_INTEGER),
    )
  }
}
