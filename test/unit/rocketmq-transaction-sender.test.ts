import { EventEmitter } from 'node:events'
import {
  type RocketmqModule,
  TransactionSender,
  type TransactionSenderOptions,
} from 'flash-sale-kit/rocketmq'
import { describe, expect, it, vi } from 'vitest'
import { CheckBack } from '../../src/rocketmq/check-back.js'

/** What the client answers, and what it was told. */
class Broker {
  readonly told: string[] = []
  take: () => Promise<unknown> = async () => ({})
  end: () => Promise<unknown> = async () => {}

  get module(): RocketmqModule {
    const broker = this
    class Producer {
      readonly rpcClientManager = { close() {} }
      async startup() {}
      async shutdown() {}
      createTelemetryStream() {
        return new EventEmitter()
      }
      onSettingsCommand() {}
      onUnknownCommand() {}
      async getRouteData() {
        return { messageQueues: [{ acceptMessageTypesList: [4] }] }
      }
      send({ keys, body }: { keys: string[]; body: Buffer }) {
        broker.told.push(`hold ${keys} ${body}`)
        return broker.take()
      }
      beginTransaction() {
        const tell = (what: string) => {
          broker.told.push(what)
          return broker.end()
        }
        return { commit: () => tell('commit'), rollback: () => tell('rollback') }
      }
    }
    return { Producer, SimpleConsumer: Producer as never }
  }
}

const options = { endpoints: 'proxy:8081', topic: 't', committed: async () => false }

async function open(broker: Broker, o: Partial<TransactionSenderOptions> = {}) {
  const errors: string[] = []
  const onError = (error: unknown) => errors.push((error as Error).message)
  const sender = new TransactionSender({ ...options, module: broker.module, onError, ...o })
  await sender.start()
  return { sender, errors }
}

const message = { bizNo: 'n1', payload: { units: 1 } }
const fails = () => Promise.reject(new Error('no connection'))

describe('TransactionSender', () => {
  it('refuses what it cannot use, and calls nobody', async () => {
    for (const wrong of [
      { ...options, committed: undefined },
      { ...options, isRolledBack: true },
      { ...options, workLimitMs: 999 },
    ])
      expect(() => new TransactionSender(wrong as never)).toThrow('option')
    const broker = new Broker()
    const { sender } = await open(broker)
    for (const wrong of [
      { ...message, bizNo: '' },
      { ...message, bizNo: 'n 1' },
      { ...message, bizNo: 'n'.repeat(129) },
      { ...message, payload: undefined },
      { ...message, payload: 'x'.repeat(262_143) },
    ])
      await expect(sender.send(wrong as never, async () => {})).rejects.toMatchObject({
        code: 'BAD_INPUT',
      })
    await expect(sender.send(message, null as never)).rejects.toThrow('work')
    expect(broker.told).toEqual([])
  })

  it('holds, works, tells', async () => {
    const broker = new Broker()
    const { sender, errors } = await open(broker)
    expect(await sender.send(message, async () => broker.told.push('work'))).toBe(2)
    expect(broker.told).toEqual(['hold n1 {"units":1}', 'work', 'commit'])
    expect(errors).toEqual([])
  })

  it('runs no work when the broker refuses or is late', async () => {
    for (const take of [fails, () => new Promise((resolve) => setTimeout(resolve, 100))]) {
      const broker = new Broker()
      broker.take = take
      const { sender } = await open(broker, { sendTimeoutMs: 20 })
      const work = vi.fn()
      await expect(sender.send(message, work)).rejects.toMatchObject({ code: 'QUEUE_UNAVAILABLE' })
      await new Promise((resolve) => setTimeout(resolve, 150))
      expect(work).not.toHaveBeenCalled()
      expect(broker.told).toEqual(['hold n1 {"units":1}'])
    }
  })

  it('tells nothing when the work throws, unless it is known to be rolled back', async () => {
    const refusal = new Error('sold out')
    const cases = [
      [undefined, []],
      [(error: unknown) => error === refusal, ['rollback']],
      [() => false, []],
      [() => JSON.parse('{'), []],
    ] as const
    for (const [isRolledBack, told] of cases) {
      const broker = new Broker()
      const { sender } = await open(broker, isRolledBack ? { isRolledBack } : {})
      await expect(sender.send(message, () => Promise.reject(refusal))).rejects.toBe(refusal)
      expect(broker.told.slice(1)).toEqual(told)
    }
  })

  it('resolves although the broker cannot be told, and says when that may lose the message', async () => {
    vi.useFakeTimers()
    try {
      const broker = new Broker()
      broker.end = fails
      const { sender, errors } = await open(broker, { workLimitMs: 1_000 })
      expect(await sender.send(message, async () => 'done')).toBe('done')
      expect(errors).toEqual(['no connection'])
      const late = sender.send(message, async () => vi.advanceTimersByTimeAsync(1_001))
      await late
      expect(errors.slice(1)).toEqual([
        'no connection',
        'the work of n1 took too long: its message may be lost',
      ])
    } finally {
      vi.useRealTimers()
    }
  })

  it('tells nothing more once it was stopped, and takes nothing', async () => {
    const broker = new Broker()
    const { sender, errors } = await open(broker)
    let end = () => {}
    const sending = sender.send(message, () => new Promise<void>((resolve) => (end = resolve)))
    await sender.stop({ drainMs: 10 })
    await expect(sender.send(message, async () => {})).rejects.toMatchObject({ code: 'STOPPED' })
    end()
    await sending
    expect(broker.told).toEqual(['hold n1 {"units":1}'])
    expect(errors).toEqual([])
  })
})

describe('CheckBack', () => {
  const [UNKNOWN, COMMIT, ROLLBACK] = [0, 1, 2]
  const ask = async (
    ageMs: number,
    committed: (bizNo: string) => Promise<boolean>,
    abandoned = new AbortController().signal,
  ) => {
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    const bornTimestamp = new Date(Date.now() - ageMs)
    const asked = { body: Buffer.from(''), receiptHandle: '', keys: ['n1'], bornTimestamp }
    const checker = new CheckBack({ committed, workLimitMs: 1_000, abandoned, onError })
    const said = await checker.check(asked)
    return { said, failed: errors.length }
  }

  it('delivers what is there, and takes back what is missing only when its time is over', async () => {
    const seen: string[] = []
    const there = async (bizNo: string) => seen.push(bizNo) > 0
    expect(await ask(0, there)).toEqual({ said: COMMIT, failed: 0 })
    expect(await ask(60_000, there)).toEqual({ said: COMMIT, failed: 0 })
    expect(seen).toEqual(['n1', 'n1'])
    const missing = async () => false
    expect(await ask(500, missing)).toEqual({ said: UNKNOWN, failed: 0 })
    expect(await ask(1_500, missing)).toEqual({ said: ROLLBACK, failed: 0 })
  })

  it('counts the age before it looks: a look-up that is slow does not see what came meanwhile', async () => {
    const slow = () => new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 200))
    expect(await ask(900, slow)).toEqual({ said: UNKNOWN, failed: 0 })
  })

  it('says nothing once it was stopped', async () => {
    expect(await ask(0, async () => true, AbortSignal.abort())).toEqual({
      said: UNKNOWN,
      failed: 0,
    })
  })

  it('says nothing when the look-up throws, or answers no boolean', async () => {
    expect(await ask(60_000, () => fails() as never)).toEqual({ said: UNKNOWN, failed: 1 })
    expect(await ask(60_000, async () => 0 as never)).toEqual({ said: UNKNOWN, failed: 1 })
    expect(await ask(60_000, (() => undefined) as never)).toEqual({ said: UNKNOWN, failed: 1 })
  })
})
