import { fail } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { newOrderNo } from '../../core/order-no.js'
import type { Consumer, Delivery, Handled, Queue } from '../../core/queue.js'
import type { Batch, Json, Reservation, Sent } from '../../core/types.js'
import type { QueueFeature, QueueUnderTest } from '../queue-suite.js'

type Answer = Handled | readonly Handled[]

/** A queue on the bench: its tools, and the consumers to be ended with the case. */
export class Bench {
  readonly queue: Queue
  private readonly consumers: Consumer[] = []
  private readonly held: (() => void)[] = []

  constructor(
    readonly under: QueueUnderTest,
    private readonly features: readonly QueueFeature[],
  ) {
    this.queue = under.queue
  }

  has(feature: QueueFeature): boolean {
    return this.features.includes(feature)
  }

  /** Fails unless the queue has taken the batch. */
  async send(...batches: readonly Batch[]): Promise<void> {
    const wanted: Sent = this.has('durable') ? 'accepted' : 'unknown'
    for (const batch of batches) {
      const sent = await this.queue.send(batch, { signal: AbortSignal.timeout(10_000) })
      if (sent !== wanted) fail(`send answered ${sent}, not ${wanted}`)
    }
  }

  /** A consumer that writes down what it is handed; `answer` may take its time. */
  consume(
    answer: (delivery: Delivery) => Answer | Promise<Answer>,
    o: { readonly on?: Queue; readonly maxBatches?: number } = {},
  ): Recorder {
    const deliveries: Delivery[] = []
    const handler = async (delivery: Delivery): Promise<Answer> => {
      deliveries.push(delivery)
      return answer(delivery)
    }
    const consumer = (o.on ?? this.queue).consume(handler, { maxBatches: o.maxBatches ?? 16 })
    this.consumers.push(consumer)
    return new Recorder(deliveries, consumer)
  }

  /** Keeps a handler waiting until `open` is called, at the end of the case at the latest. */
  gate(): { readonly open: () => void; readonly opened: Promise<void> } {
    let open = () => {}
    const opened = new Promise<void>((resolve) => {
      open = resolve
    })
    this.held.push(open)
    return { open, opened }
  }

  /** Asks each 5 ms until it is so; fails with `what` after the queue's own patience. */
  async until(what: string, so: () => boolean | Promise<boolean>): Promise<void> {
    const end = performance.now() + this.under.patienceMs
    while (!(await so())) {
      if (performance.now() >= end) fail(`${what}: not so within ${this.under.patienceMs} ms`)
      await sleep(5)
    }
  }

  /** Long enough for a message that must not come to come. */
  async quiet(): Promise<void> {
    await sleep(Math.max(300, this.under.claimMs * 2))
  }

  async close(): Promise<void> {
    for (const open of this.held) open()
    await Promise.all(this.consumers.map((c) => c.stop()))
    await this.under.close()
  }
}

/** What a consumer was handed so far. */
export class Recorder {
  constructor(
    readonly deliveries: readonly Delivery[],
    readonly consumer: Consumer,
  ) {}

  get batches(): readonly Batch[] {
    return this.deliveries.flatMap((d) => d.batches)
  }

  /** Ids in the order they came, with those that came twice. */
  get ids(): readonly string[] {
    return this.batches.map((b) => b.batchId)
  }
}

let made = 0

export function reservationOf(o: Partial<Reservation> = {}): Reservation {
  return {
    activityId: 'suite',
    skuId: 's1',
    orderNo: newOrderNo(),
    userId: `u${++made}`,
    quantity: 1,
    bucket: 0,
    version: 'v1',
    reservedAt: 1_790_000_000_000,
    ...o,
  }
}

export function batchOf(reservations: readonly Reservation[] = [reservationOf()]): Batch {
  const { activityId, skuId } = reservations[0] ?? reservationOf()
  return { schema: 1, batchId: newOrderNo(), activityId, skuId, reservations }
}

export function batchesOf(count: number): readonly Batch[] {
  return Array.from({ length: count }, () => batchOf())
}

/** A batch of at least so many bytes. */
export function batchOfBytes(bytes: number): Batch {
  const payload: Json = 'x'.repeat(1_000)
  return batchOf(Array.from({ length: Math.ceil(bytes / 1_000) }, () => reservationOf({ payload })))
}

export function idsOf(batches: readonly Batch[]): readonly string[] {
  return batches.map((b) => b.batchId).sort()
}
