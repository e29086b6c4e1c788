import { EventEmitter } from 'node:events'
import { within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import type { ClientInside, TelemetryStream } from './sdk.js'

/** What gRPC calls a request that the server will never like: repeated each second, it changes nothing. */
const INVALID_ARGUMENT = 3

/**
 * One client of rocketmq-client-nodejs, made safe to start and to end. Of 1.0.8 on its own were seen:
 * - `startup()` that never settles, as when the consumer group does not exist;
 * - `shutdown()` that rejects before it has closed anything, when the broker is gone;
 * - a telemetry stream renewed each second for ever after `shutdown()`, so that the process does not end;
 * - an `error` event on a stream that nobody listens to any more, which ends the process.
 */
export class ManagedClient<C extends Pick<ClientInside, 'startup' | 'shutdown'>> {
  private readonly inside: ClientInside
  private readonly streams = new Set<TelemetryStream>()
  private starting: Promise<void> | null = null
  private started = false
  private closed = false
  private refuse: (error: Error) => void = () => {}
  /** Set by the broker's settings of a consumer whose group delivers in order. */
  fifoGroup = false

  constructor(
    readonly client: C,
    private readonly onError: (error: unknown) => void,
  ) {
    this.inside = client as unknown as ClientInside
    const { inside } = this
    const create = inside.createTelemetryStream.bind(inside)
    inside.createTelemetryStream = (endpoints) =>
      this.closed ? silentStream() : this.watched(create(endpoints))
    const onSettings = inside.onSettingsCommand.bind(inside)
    inside.onSettingsCommand = (endpoints, settings) => {
      this.fifoGroup = settings.getSubscription?.()?.getFifo() ?? false
      onSettings(endpoints, settings)
    }
  }

  /** Rejects with what the broker said, or with `QUEUE_UNAVAILABLE` after `ms`; then it must be closed. */
  async start(ms: number, late: () => string): Promise<void> {
    const refused = new Promise<never>((_, reject) => {
      this.refuse = reject
    })
    refused.catch(() => {}) // when nobody waits any more
    this.starting = this.inside.startup().then(() => {
      this.started = true
    })
    this.starting.catch(() => {}) // as above
    await within(Promise.race([this.starting, refused]), ms, () => {
      throw new FlashSaleError('QUEUE_UNAVAILABLE', late())
    })
  }

  async route(topic: string) {
    return this.inside.getRouteData(topic)
  }

  /** Takes at most `ms`; afterwards nothing of the client keeps the process alive for long. */
  async close(ms: number): Promise<void> {
    this.closed = true
    const begun = this.starting && !this.started
    if (begun) void this.abandon()
    const ending = this.end()
    await within(ending, ms, () => undefined)
    this.cut()
    void ending.then(() => this.cut())
  }

  private async end(): Promise<void> {
    try {
      await this.inside.shutdown()
    } catch (error) {
      this.onError(error)
    }
  }

  /** What `shutdown()` leaves open when it fails or hangs. */
  private cut(): void {
    for (const stream of this.streams) {
      stream.removeAllListeners()
      stream.cancel()
    }
    this.streams.clear()
    this.inside.rpcClientManager.close()
  }

  /** A startup that is given up goes on, and may set its timers after they were cleared: it is failed first. */
  private async abandon(): Promise<void> {
    const fail = () =>
      this.inside.onUnknownCommand(null, { code: 40_000, message: 'the start was given up' })
    const failing = setInterval(fail, 100)
    failing.unref() // whatever a startup waits for keeps the process alive by itself
    await this.starting?.catch(() => {})
    clearInterval(failing)
    await this.end()
    this.cut()
  }

  private watched(stream: TelemetryStream): TelemetryStream {
    this.streams.add(stream)
    const emit = stream.emit.bind(stream)
    stream.emit = (event, ...args) => {
      if (event !== 'error') return emit(event, ...args)
      this.streams.delete(stream)
      const [error] = args
      if (error?.code === INVALID_ARGUMENT) this.refuse(error)
      return stream.listenerCount('error') > 0 && emit(event, ...args)
    }
    return stream
  }
}

/** In place of a stream of a client that was closed. */
function silentStream(): TelemetryStream {
  const nothing = () => {}
  return Object.assign(new EventEmitter(), { write: nothing, end: nothing, cancel: nothing })
}
