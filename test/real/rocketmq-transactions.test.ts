import { setTimeout as sleep } from 'node:timers/promises'
import { TransactionSender, type TransactionSenderOptions } from 'flash-sale-kit/rocketmq'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../harness/databases.js'
import { freePort, LOOPBACK, until } from '../harness/net.js'
import type { RocketmqServer } from '../harness/services/rocketmq.js'
import { startRocketmq } from '../harness/services.js'
import { spawnNode } from '../harness/spawn-node.js'
import { ASKING, book, isBooked, makeBookings, Receiver } from '../suites/rocketmq-transactions.js'

const WORK_LIMIT_MS = 5_000
const PATIENCE_MS = 60_000

let server: RocketmqServer
let db: FreshDatabase
beforeAll(async () => {
  ;[server, db] = await Promise.all([startRocketmq({ config: ASKING }), freshDatabase('mariadb')])
  await makeBookings(db.knex)
})
afterAll(() => Promise.all([server.stop(), db.destroy()]))

let count = 0
let topic: string
let receiver: Receiver
let errors: unknown[]
/** What the broker asked about, in order. */
let asked: string[]
const cleanUps: (() => unknown)[] = []
beforeEach(async () => {
  topic = `tx${++count}`
  errors = []
  asked = []
  await server.createTopic(topic, { type: 'TRANSACTION' })
  receiver = await Receiver.on(server, topic)
  cleanUps.push(() => receiver.close())
})
afterEach(async () => {
  for (const act of cleanUps.splice(0)) await act()
})

const isThere = (bizNo: string) => isBooked(db.knex, bizNo)

function make(o: Partial<TransactionSenderOptions> = {}): TransactionSender {
  const { committed = isThere, ...more } = o
  const sender = new TransactionSender({
    endpoints: server.endpoints,
    topic,
    workLimitMs: WORK_LIMIT_MS,
    sendTimeoutMs: 10_000,
    startTimeoutMs: 30_000,
    onError: (error) => errors.push(error),
    committed(bizNo) {
      asked.push(bizNo)
      return committed(bizNo)
    },
    ...more,
  })
  cleanUps.unshift(() => sender.stop({ drainMs: 1_000 }))
  return sender
}

async function open(o?: Partial<TransactionSenderOptions>): Promise<TransactionSender> {
  const sender = make(o)
  await sender.start()
  return sender
}

const arrives = (key: string) =>
  until(`${key} arrives`, () => receiver.keys.includes(key), PATIENCE_MS)
const asks = (bizNo: string, times: number) =>
  until(
    `the broker asks ${times} times`,
    () => asked.filter((a) => a === bizNo).length >= times,
    PATIENCE_MS,
  )

/** The broker has an answer when it asks no more; it asks each second. */
async function asksNoMore(): Promise<void> {
  let before: number
  do {
    before = asked.length
    await sleep(4_000)
  } while (asked.length > before)
}

const spawnSender = (env: Record<string, string>) =>
  spawnNode(new URL('./fixtures/rocketmq-transaction.ts', import.meta.url), {
    env: {
      ENDPOINTS: server.endpoints,
      TOPIC: topic,
      DATABASE: JSON.stringify(db.address),
      ...env,
    },
  })

describe('TransactionSender.send', () => {
  it('delivers once the work has committed, and returns what it returned', async () => {
    const sender = await open()
    const payload = { text: '秒杀 "x"', units: [1, 2] }
    const sent = await sender.send({ bizNo: 'c|1', payload }, async () => {
      await sleep(1_000)
      expect(receiver.keys).toEqual([])
      return book(db.knex, 'c|1')
    })
    expect(sent).toBe('c|1')
    await arrives('c|1')
    expect(receiver.bodyOf('c|1')).toEqual(payload)
    expect(errors).toEqual([])
  })

  it('takes back at once what is known to be rolled back', async () => {
    class Refused extends Error {}
    const sender = await open({ isRolledBack: (error) => error instanceof Refused })
    const work = async () => {
      throw new Refused('too late')
    }
    await expect(sender.send({ bizNo: 'r1', payload: null }, work)).rejects.toThrow(Refused)
    await sender.send({ bizNo: 'r2', payload: null }, () => book(db.knex, 'r2'))
    await arrives('r2')
    await asksNoMore()
    expect(receiver.keys).toEqual(['r2'])
    expect(errors).toEqual([])
  })

  it('has the broker ask when a work throws, and takes back what stays missing', async () => {
    const sender = await open()
    const begun = performance.now()
    const work = async () => {
      throw new Error('connection lost')
    }
    await expect(sender.send({ bizNo: 't1', payload: null }, work)).rejects.toThrow('lost')
    await asks('t1', 2)
    await asksNoMore()
    expect(performance.now() - begun).toBeGreaterThan(WORK_LIMIT_MS)
    expect(receiver.keys).toEqual([])
  })

  it('delivers what was committed although the work threw', async () => {
    const sender = await open()
    const work = async () => {
      await book(db.knex, 'u1')
      throw new Error('the answer to COMMIT was lost')
    }
    await expect(sender.send({ bizNo: 'u1', payload: null }, work)).rejects.toThrow('lost')
    await arrives('u1')
  })

  it('leaves a message alone while its work may still run', async () => {
    const sender = await open({ workLimitMs: 60_000 })
    await open({ workLimitMs: 60_000 }) // asked as often as the first
    const slow = async () => {
      await asks('s1', 2)
      return book(db.knex, 's1')
    }
    await sender.send({ bizNo: 's1', payload: null }, slow)
    await arrives('s1')
    expect(errors).toEqual([])
  })

  it('runs no work while the broker is away', async () => {
    const sender = await open({ sendTimeoutMs: 500 })
    const begins: string[] = []
    const send = () => sender.send({ bizNo: 'a1', payload: null }, async () => begins.push('a1'))
    await server.kill('SIGSTOP')
    const begun = performance.now()
    const refused = await send().catch((error: unknown) => error)
    const tookMs = performance.now() - begun
    await server.kill('SIGCONT')
    expect(refused).toMatchObject({ code: 'QUEUE_UNAVAILABLE' })
    expect(tookMs).toBeLessThan(1_500)
    expect(begins).toEqual([])
  })
})

describe('TransactionSender, asked by the broker', () => {
  it('answers for a sender that was killed: what it committed is delivered, the rest is not', async () => {
    for (const DIES of ['before', 'after']) {
      const doomed = await spawnSender({ BIZ_NO: `k-${DIES}`, DIES })
      expect((await doomed.exited).signal, doomed.output()).toBe('SIGKILL')
    }
    expect([await isThere('k-before'), await isThere('k-after')]).toEqual([false, true])
    await open()
    await arrives('k-after')
    await asksNoMore()
    expect(receiver.keys).toEqual(['k-after'])
    expect(asked).toContain('k-before')
  })

  it('is asked again while the look-up throws or answers nonsense', async () => {
    const answers = [Promise.reject(new Error('the database is away')), Promise.resolve(1 as never)]
    for (const answer of answers) answer.catch(() => {})
    const sender = await open({ committed: (bizNo) => answers.shift() ?? isThere(bizNo) })
    const work = async () => {
      await book(db.knex, 'l1')
      throw new Error('lost')
    }
    await expect(sender.send({ bizNo: 'l1', payload: null }, work)).rejects.toThrow('lost')
    await arrives('l1')
    expect(errors.map(String)).toEqual([
      'Error: the database is away',
      'TypeError: committed must answer true or false, got 1',
    ])
  })

  it('is asked by a broker that died with the message and came back', async () => {
    const sender = await open({ sendTimeoutMs: 1_000 })
    await sender.send({ bizNo: 'b1', payload: null }, async () => {
      await server.kill('SIGKILL')
      return book(db.knex, 'b1')
    })
    expect(errors).toHaveLength(1)
    await server.restart()
    await arrives('b1')
  })
})

describe('TransactionSender.start and stop', () => {
  const code = (starting: Promise<unknown>) =>
    starting.then(
      () => null,
      (error: { code?: unknown }) => error.code,
    )

  it('names what is missing or of the wrong type, and can be called again', async () => {
    await server.createTopic('tx-fifo', { type: 'FIFO' })
    expect(await code(make({ topic: 'tx-fifo' }).start())).toBe('BAD_OPTION')
    const endpoints = `${LOOPBACK}:${await freePort()}`
    const nobody = make({ endpoints, startTimeoutMs: 1_000 })
    expect(await code(nobody.start())).toBe('QUEUE_UNAVAILABLE')

    const late = make({ topic: 'tx-late' })
    expect(await code(late.start())).toBe('QUEUE_UNAVAILABLE')
    expect(await code(late.send({ bizNo: 'n', payload: null }, async () => {}))).toBe(
      'QUEUE_UNAVAILABLE',
    )
    await server.createTopic('tx-late', { type: 'TRANSACTION' })
    // The proxy goes on for a second to say that it is not there.
    await until('it starts', async () => (await code(late.start())) === null)
    await late.start()
    await late.send({ bizNo: 'n', payload: null }, async () => {})
  })

  it('lets a send that runs end, takes no other, and leaves nothing that keeps the process alive', async () => {
    const sender = await open()
    const sending = sender.send({ bizNo: 'e1', payload: null }, async () => {
      await sleep(500)
      return book(db.knex, 'e1')
    })
    await sleep(250)
    await sender.stop()
    await expect(sending).resolves.toBe('e1')
    await arrives('e1')
    expect(await code(sender.send({ bizNo: 'e2', payload: null }, async () => {}))).toBe('STOPPED')
    expect(await code(sender.start())).toBe('STOPPED')

    const other = await spawnSender({ BIZ_NO: 'e3' })
    await other.line(/^sent/, 40_000)
    other.write('\n')
    await until('the other has ended', () => !other.isAlive(), 10_000)
    expect(await other.exited, other.output()).toEqual({ code: 0, signal: null })
  })
})
