import { within } from '../core/background.js'
import * as check from '../core/check.js'
import { FlashSaleError } from '../core/errors.js'
import type { Background } from '../core/ports.js'
import { quiet } from '../core/quiet.js'
import type { Json } from '../core/types.js'
import { addressOf, place, producerOptions, type RocketmqAddress } from './address.js'
import { CheckBack } from './check-back.js'
import { ManagedClient } from './managed-client.js'
import {
  loadModule,
  type RocketmqModule,
  type RocketmqProducer,
  type RocketmqTransaction,
} from './sdk.js'
import { requireTopic } from './topic.js'

export interface TransactionSenderOptions extends RocketmqAddress {
  /**
   * A TRANSACTION topic (`+message.type=TRANSACTION`), made beforehand. The broker asks any sender of the topic what became
   * of a message, so all of them must look into the same database.
   */
  readonly topic: string
  /**
   * Whether a number is in the database for good, read where it is written (not from a replica). Asked about messages whose
   * sender never said. A throw is no answer: the broker asks again.
   */
  readonly committed: (bizNo: string) => Promise<boolean>
  /**
   * Longest time a work may take, in ms, the difference of the processes' clocks included. A message whose number is not
   * found after that is taken back; one whose work commits even later may be lost. @defaultValue 60,000
   */
  readonly workLimitMs?: number
  /**
   * True for what a work throws when surely nothing was committed, such as a refusal of yours: the message is taken back at
   * once, instead of by the broker's questions. Never for a lost connection or a timeout. @defaultValue never
   */
  readonly isRolledBack?: (error: unknown) => boolean
  /** Deadline of each call to the broker, in ms; two a message. @defaultValue 500 */
  readonly sendTimeoutMs?: number
  /** Limit of `start()`, in ms. @defaultValue 10,000 */
  readonly startTimeoutMs?: number
  /** Told of what went wrong where no caller hears of it; nothing is lost by it unless it says so. */
  readonly onError?: (error: unknown) => void
  /** The client, where a bundler must be told. @defaultValue `import('rocketmq-client-nodejs')` at `start()` */
  readonly module?: RocketmqModule
}

export interface TransactionMessage {
  /** What the work writes and `committed` finds; the message's key. 1 to 128 characters from `!` to `~`. */
  readonly bizNo: string
  /** The body, as JSON of at most 256 KiB. */
  readonly payload: Json
}

const BIZ_NO = /^[!-~]{1,128}$/
const MAX_PAYLOAD_BYTES = 262_144

/**
 * Sends messages that are delivered if, and only if, a local transaction commits: the broker stores the message first and
 * holds it back, then the work runs, then the broker is told. Where nobody tells it, it asks, and `committed` answers. A
 * message may come twice; receivers tell by `bizNo`.
 */
export class TransactionSender implements Background {
  readonly #address: RocketmqAddress & { readonly sendTimeoutMs: number }
  readonly #startTimeoutMs: number
  readonly #workLimitMs: number
  readonly #checker: CheckBack
  readonly #isRolledBack: (error: unknown) => boolean
  readonly #module: RocketmqModule | undefined
  readonly #onError: (error: unknown) => void
  readonly #sends = new Set<Promise<unknown>>()
  /** Aborted when nothing may reach the client any more: it would open connections that nobody closes. */
  readonly #abandoned = new AbortController()
  #client: ManagedClient<RocketmqProducer> | null = null
  #starting: Promise<void> | null = null
  #stopping: Promise<void> | null = null

  constructor(o: TransactionSenderOptions) {
    check.object(o, 'options')
    this.#onError = quiet('onError', o.onError)
    this.#address = {
      ...addressOf(o),
      sendTimeoutMs: check.option(o.sendTimeoutMs, 'sendTimeoutMs', 500, 1, 60_000),
    }
    this.#startTimeoutMs = check.option(o.startTimeoutMs, 'startTimeoutMs', 10_000, 100, 300_000)
    this.#workLimitMs = check.option(o.workLimitMs, 'workLimitMs', 60_000, 1_000, 3_600_000)
    if (typeof o.committed !== 'function')
      check.fail('BAD_OPTION', 'option committed', 'a function', o.committed)
    if (o.isRolledBack !== undefined && typeof o.isRolledBack !== 'function')
      check.fail('BAD_OPTION', 'option isRolledBack', 'a function', o.isRolledBack)
    this.#isRolledBack = o.isRolledBack ?? (() => false)
    this.#checker = new CheckBack({
      committed: o.committed,
      workLimitMs: this.#workLimitMs,
      abandoned: this.#abandoned.signal,
      onError: this.#onError,
    })
    this.#module = o.module
  }

  /**
   * May be called again. From now on this process also answers for messages of others that are gone.
   *
   * @throws FlashSaleError within `startTimeoutMs`: `QUEUE_UNAVAILABLE` when the broker does not answer or the topic is
   * missing; `BAD_OPTION` when it is of the wrong type, or the client cannot be loaded
   */
  async start(): Promise<void> {
    if (this.#stopping) throw new FlashSaleError('STOPPED', 'this sender was stopped')
    this.#starting ??= this.#open().catch((error: unknown) => {
      this.#starting = null
      throw error
    })
    return this.#starting
  }

  /**
   * Runs the work, which must have committed when it resolves, and resolves with what it returned; the message is delivered
   * then, if need be after the broker has asked. Rejects with what the work threw; unless `isRolledBack` knows better, the
   * broker will ask whether it was committed all the same.
   *
   * @throws FlashSaleError before the work has begun: `QUEUE_UNAVAILABLE` when the broker did not take the message, or the
   * sender was not started; `STOPPED`; `BAD_INPUT`
   */
  send<T>(message: TransactionMessage, work: () => Promise<T>): Promise<T> {
    const sending = this.#send(message, work)
    this.#sends.add(sending)
    const ended = () => this.#sends.delete(sending)
    sending.then(ended, ended)
    return sending
  }

  /**
   * Lets sends that run end, and the client say goodbye, for at most `drainMs` (default 5,000). About a work that runs on
   * after that the broker asks other processes.
   */
  stop(o: { readonly drainMs?: number } = {}): Promise<void> {
    check.object(o, 'options')
    const drainMs = check.option(o.drainMs, 'drainMs', 5_000, 0, 600_000)
    this.#stopping ??= this.#drain(performance.now() + drainMs)
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #open(): Promise<void> {
    const until = performance.now() + this.#startTimeoutMs
    const { Producer } = await loadModule(this.#module)
    const options = { ...producerOptions(this.#address), checker: this.#checker }
    const client = new ManagedClient(new Producer(options as never), this.#onError)
    try {
      await client.start(this.#startTimeoutMs, () => `${place(this.#address)} did not answer`)
      await requireTopic(client, this.#address, 'TRANSACTION', until)
    } catch (error) {
      await client.close(0)
      throw error
    }
    if (this.#stopping) await client.close(0)
    else this.#client = client
  }

  async #drain(until: number): Promise<void> {
    const rest = () => Math.max(0, until - performance.now())
    await within(Promise.allSettled(this.#sends), rest(), () => undefined)
    this.#abandoned.abort()
    await this.#client?.close(rest())
  }

  async #send<T>(message: TransactionMessage, work: () => Promise<T>): Promise<T> {
    const { bizNo, body } = read(message)
    if (typeof work !== 'function') check.fail('BAD_INPUT', 'work', 'a function', work)
    const begun = performance.now()
    const transaction = await this.#hold(bizNo, body)
    let result: T
    try {
      result = await work()
    } catch (error) {
      if (this.#knowsRolledBack(error)) await this.#tell(() => transaction.rollback())
      throw error
    }
    const isTold = await this.#tell(() => transaction.commit())
    if (!isTold && performance.now() - begun > this.#workLimitMs)
      this.#onError(new Error(`the work of ${bizNo} took too long: its message may be lost`))
    return result
  }

  /** The message is with the broker when it resolves, and delivered to nobody. */
  async #hold(bizNo: string, body: Buffer): Promise<RocketmqTransaction> {
    if (this.#stopping) throw new FlashSaleError('STOPPED', 'this sender was stopped')
    if (!this.#client) throw new FlashSaleError('QUEUE_UNAVAILABLE', 'this sender was not started')
    const { client } = this.#client
    const { topic, sendTimeoutMs } = this.#address
    try {
      const transaction = client.beginTransaction()
      const sending = client.send({ topic, keys: [bizNo], body }, transaction as never)
      await within(sending, sendTimeoutMs, () => {
        throw new Error(`no answer within ${sendTimeoutMs} ms`)
      })
      return transaction
    } catch (cause) {
      const text = `${place(this.#address)} did not take the message`
      throw new FlashSaleError('QUEUE_UNAVAILABLE', text, { cause })
    }
  }

  /** False when the broker did not confirm: it will ask. */
  async #tell(call: () => Promise<unknown>): Promise<boolean> {
    if (this.#abandoned.signal.aborted) return false
    try {
      await within(call(), this.#address.sendTimeoutMs, () => {
        throw new Error(`${place(this.#address)} did not answer how a message ends; it will ask`)
      })
      return true
    } catch (error) {
      this.#onError(error)
      return false
    }
  }

  #knowsRolledBack(error: unknown): boolean {
    try {
      return this.#isRolledBack(error) === true
    } catch (fault) {
      this.#onError(fault)
      return false
    }
  }
}

function read(message: TransactionMessage): { readonly bizNo: string; readonly body: Buffer } {
  check.object(message, 'message')
  const { bizNo, payload } = message
  if (typeof bizNo !== 'string' || !BIZ_NO.test(bizNo))
    check.fail('BAD_INPUT', 'bizNo', 'a string of 1 to 128 characters from ! to ~', bizNo)
  return { bizNo, body: Buffer.from(check.jsonText(payload, 'payload', MAX_PAYLOAD_BYTES)) }
}
