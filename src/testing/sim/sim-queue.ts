import type { BatchHandler, Consumer, Queue } from '../../core/queue.js'
import type { Batch, Sent } from '../../core/types.js'
import type { CallFault, Calls, SimProcess } from './process.js'

export interface Message {
  readonly batch: Batch
  attempt: number
}

/** Messages in no order: whoever hands them over chooses. */
export class SimBroker {
  messages: Message[] = []

  store(batch: Batch): Sent {
    this.messages.push({ batch: JSON.parse(JSON.stringify(batch)) as Batch, attempt: 0 })
    return 'accepted'
  }
}

const FAULTS: readonly CallFault<unknown>[] = [
  { name: 'rejected', done: 0, answer: () => 'rejected' },
  { name: 'rejected, though the queue has it', done: 1, answer: () => 'rejected' },
  { name: 'no answer, though the queue has it', done: 1, answer: () => 'unknown' },
  { name: 'no answer, and the queue does not have it', done: 0, answer: () => 'unknown' },
  { name: 'accepted, and lost', done: 0, answer: () => 'accepted' },
  { name: 'accepted, and doubled', done: 1, again: true, answer: () => 'accepted' },
]

/** The queue as one process has it. `consuming` is what the worker waits for messages with. */
export class SimQueue implements Queue {
  consuming: BatchHandler | null = null
  private paused = false

  constructor(
    private readonly o: {
      readonly process: SimProcess
      readonly calls: Calls
      readonly broker: SimBroker
      readonly label: (batch: Batch) => string
      /** Breaks the rule that a batch travels whole: two messages, of which the second is refused. */
      readonly split: boolean
    },
  ) {}

  get ready(): boolean {
    return this.consuming !== null && !this.paused
  }

  async start(): Promise<void> {}
  async stop(): Promise<void> {}
  async [Symbol.asyncDispose](): Promise<void> {}

  send(batch: Batch): Promise<Sent> {
    const { process, calls, broker, label, split } = this.o
    if (split && batch.reservations.length > 1) {
      const halves = [batch.reservations.slice(0, 1), batch.reservations.slice(1)]
      const [sent] = halves.map((reservations) =>
        calls.send(
          process,
          () => `queue: half of ${label(batch)}`,
          () => {
            if (reservations === halves[0]) broker.store({ ...batch, reservations })
            return 'rejected' as const
          },
          [],
        ),
      )
      return sent as Promise<Sent>
    }
    return calls.send(
      process,
      () => `queue: ${label(batch)}`,
      () => broker.store(batch),
      FAULTS,
    )
  }

  consume(handler: BatchHandler): Consumer {
    this.consuming = handler
    return {
      pause: async () => {
        this.paused = true
      },
      resume: () => {
        this.paused = false
      },
      stop: async () => {
        this.consuming = null
      },
    }
  }

  async lag(): Promise<{ readonly messages: number; readonly oldestAgeMs: number | null }> {
    const messages = this.o.broker.messages.length
    return { messages, oldestAgeMs: messages === 0 ? null : 0 }
  }
}
