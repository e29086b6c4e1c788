import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Inbox, type Received } from '../../src/rocketmq/inbox.js'
import type { RocketmqConsumer, RocketmqMessage } from '../../src/rocketmq/sdk.js'

const INVISIBLE_MS = 30_000

/** A broker that answers each receive when it is told to. */
class Broker {
  readonly counts: number[] = []
  private readonly waiting: ((messages: RocketmqMessage[]) => void)[] = []
  readonly inbox = new Inbox(this as unknown as RocketmqConsumer, INVISIBLE_MS)

  receive(count: number): Promise<RocketmqMessage[]> {
    this.counts.push(count)
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  async answer(...handles: string[]): Promise<void> {
    this.waiting.shift()?.(
      handles.map((receiptHandle) => ({ body: Buffer.from(''), receiptHandle })),
    )
    await vi.advanceTimersByTimeAsync(0)
  }
}

const handles = (received: readonly Received[]) => received.map((r) => r.message.receiptHandle)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('Inbox', () => {
  it('asks for 32 at most', async () => {
    const broker = new Broker()
    const asked = broker.inbox.ask(100)
    await broker.answer('a', 'b')
    expect(handles(await asked)).toEqual(['a', 'b'])
    expect(broker.counts).toEqual([32])
  })

  it('gives the next who asks what an ask that was left brings, and the one after the rest', async () => {
    const broker = new Broker()
    broker.inbox.leave(broker.inbox.ask(3))
    await broker.answer('a', 'b', 'c')
    expect(handles(await broker.inbox.ask(2))).toEqual(['a', 'b'])
    expect(handles(await broker.inbox.ask(2))).toEqual(['c'])
    expect(broker.counts).toEqual([3])
  })

  it('gives nobody what has lain for half of its time, since others will have it', async () => {
    const broker = new Broker()
    broker.inbox.leave(broker.inbox.ask(2))
    await broker.answer('a', 'b')
    await vi.advanceTimersByTimeAsync(INVISIBLE_MS / 2)
    expect(handles(await broker.inbox.ask(2))).toEqual([])

    broker.inbox.leave(broker.inbox.ask(2))
    await broker.answer('c', 'd')
    expect(handles(await broker.inbox.ask(1))).toEqual(['c'])
    await vi.advanceTimersByTimeAsync(INVISIBLE_MS / 2)
    const asked = broker.inbox.ask(1)
    await broker.answer('e')
    expect(handles(await asked)).toEqual(['e'])
  })
})
