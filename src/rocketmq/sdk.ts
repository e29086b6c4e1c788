import type { EventEmitter } from 'node:events'
import { FlashSaleError } from '../core/errors.js'

/** The module `rocketmq-client-nodejs` (1.0.8), as far as it is used. */
export interface RocketmqModule {
  readonly Producer: new (options: never) => RocketmqProducer
  readonly SimpleConsumer: new (options: never) => RocketmqConsumer
}

export interface RocketmqProducer {
  startup(): Promise<void>
  shutdown(): Promise<void>
  send(
    message: {
      readonly topic: string
      readonly messageGroup?: string
      readonly keys: string[]
      readonly body: Buffer
    },
    transaction?: never,
  ): Promise<unknown>
  /** Of one message, sent with it. */
  beginTransaction(): RocketmqTransaction
}

export interface RocketmqTransaction {
  commit(): Promise<unknown>
  rollback(): Promise<unknown>
}

export interface RocketmqConsumer {
  startup(): Promise<void>
  shutdown(): Promise<void>
  receive(maxMessages: number, invisibleMs: number): Promise<RocketmqMessage[]>
  ack(message: never): Promise<unknown>
  changeInvisibleDuration(message: never, invisibleMs: number): Promise<unknown>
}

export interface RocketmqMessage {
  readonly body: Buffer
  /** The client replaces it when the invisible time was changed. */
  receiptHandle: string
  readonly keys?: readonly string[]
  readonly deliveryAttempt?: number
  /** By the clock of the sender. */
  readonly bornTimestamp?: Date
}

/** What every client of the module has besides; protected in its types, and needed to start and end it for certain. */
export interface ClientInside {
  startup(): Promise<void>
  shutdown(): Promise<void>
  getRouteData(topic: string): Promise<Route>
  createTelemetryStream(endpoints: unknown): TelemetryStream
  onSettingsCommand(endpoints: unknown, settings: Settings): void
  /** Ends a startup that waits for settings, with an error. */
  onUnknownCommand(endpoints: unknown, status: { code: number; message: string }): void
  readonly rpcClientManager: { close(): void }
}

export interface Route {
  /** The types: 1 is NORMAL, 2 FIFO, 3 DELAY, 4 TRANSACTION. */
  readonly messageQueues: readonly { readonly acceptMessageTypesList: readonly number[] }[]
}

export interface TelemetryStream extends EventEmitter {
  write(command: unknown): unknown
  end(): unknown
  cancel(): void
}

interface Settings {
  getSubscription?(): { getFifo(): boolean } | undefined
}

/** Loaded when a queue starts, so that this subpath can be imported where the client is not installed. */
export async function loadModule(given: RocketmqModule | undefined): Promise<RocketmqModule> {
  if (given) return given
  try {
    return await import('rocketmq-client-nodejs')
  } catch (cause) {
    const missing = 'rocketmq-client-nodejs cannot be loaded; install it beside flash-sale-kit'
    throw new FlashSaleError('BAD_OPTION', missing, { cause })
  }
}
