import type { OutboxHandler, OutboxMessage } from 'flash-sale-kit'
import { type OutboxHandlerUnderTest, outboxHandlerSuite } from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'
import { type Mutant, noticed } from './mutants.js'

/** Keeps what he is sent, once for each number; may be away. */
class Receiver {
  readonly received: string[] = []
  away = false

  async take(some: readonly OutboxMessage[]): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    if (this.away) throw new Error('nobody there')
    if (some.some(isPoison)) throw new Error('cannot be sent')
    for (const { bizNo } of some) if (!this.received.includes(bizNo)) this.received.push(bizNo)
  }
}

const isPoison = ({ payload }: OutboxMessage) => payload === 'poison'
const ALL = outboxHandlerSuite(['outage', 'poison'])
let numbers = 0

function underTest(handler: (receiver: Receiver) => OutboxHandler) {
  return async (): Promise<OutboxHandlerUnderTest> => {
    const receiver = new Receiver()
    const message = (payload: string) => ({ bizNo: `no-${++numbers}`, topic: 'shipping', payload })
    return {
      handler: handler(receiver),
      message: () => message('parcel'),
      poison: () => message('poison'),
      received: async (bizNo) => receiver.received.filter((no) => no === bizNo).length,
      async outage(begins) {
        receiver.away = begins
      },
      close: async () => {},
    }
  }
}

const GOOD: Readonly<Record<string, (receiver: Receiver) => OutboxHandler>> = {
  'that sends the group': (receiver) => (messages) => receiver.take(messages),
  'that answers for each': (receiver) => (messages) =>
    Promise.all(
      messages.map(async (message) => {
        if (isPoison(message)) return 'dead'
        return receiver.take([message]).then(
          () => 'ack' as const,
          () => 'retry' as const,
        )
      }),
    ),
}

describe.each(Object.entries(GOOD))('a handler %s', (_, handler) => {
  for (const { name, run } of ALL) test(name, () => run(underTest(handler)))
})

const MUTANTS: readonly Mutant<(receiver: Receiver) => OutboxHandler>[] = [
  ['one that sends nothing', () => async () => {}, ['a message is sent']],
  [
    'one that sends the first only',
    (r) => (messages) => r.take(messages.slice(0, 1)),
    ['a group of 100', 'two processes'],
  ],
  [
    'one that answers for the first only',
    (r) => async (messages) => {
      await r.take(messages)
      return ['ack']
    },
    ['a group of 100'],
  ],
  [
    'a receiver that does not tell what it knows',
    (r) => async (messages) => {
      for (const { bizNo } of messages) r.received.push(bizNo)
    },
    ['though it was sent', 'two processes', 'cut off at once'],
  ],
  [
    'one that throws for what the receiver has already',
    (r) => async (messages) => {
      for (const { bizNo } of messages)
        if (r.received.includes(bizNo)) throw new Error('duplicate key')
      await r.take(messages)
    },
    ['comes again though it was sent', 'beside fresh ones'],
  ],
  [
    'one that ends with its first signal',
    (r) => {
      let over = false
      return async (messages, { signal }) => {
        over ||= signal.aborted
        if (over) throw new Error('closed')
        await r.take(messages)
      }
    },
    ['cut off at once'],
  ],
  [
    'one that swallows what it cannot send',
    (r) => (messages) => r.take(messages).catch(() => {}),
    ['nobody can be reached', 'never be sent does not count'],
  ],
  [
    'one that gives up when nobody is there',
    (r) => (messages) =>
      r.take(messages).then(
        () => 'ack' as const,
        () => 'dead' as const,
      ),
    ['nobody can be reached', 'those beside it are'],
  ],
]

noticed(ALL, MUTANTS, underTest)
