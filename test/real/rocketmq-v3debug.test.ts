import { appendFileSync, writeFileSync } from 'node:fs'
import { RocketmqQueue } from 'flash-sale-kit/rocketmq'
import { type QueueUnderTest, queueSuite } from 'flash-sale-kit/testing'
import { Producer, SimpleConsumer } from 'rocketmq-client-nodejs'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { RocketmqServer } from '../harness/services/rocketmq.js'
import { startRocketmq } from '../harness/services.js'
import { INVISIBLE_MS, MAX_ATTEMPTS, PROXY, Topic } from '../suites/rocketmq.js'

const LOG = process.env.V3LOG ?? '/tmp/v3.log'
writeFileSync(LOG, '')
const log = (...a: unknown[]) => appendFileSync(LOG, `${Date.now()} ${a.join(' ')}\n`)
let server: RocketmqServer
beforeAll(async () => {
  server = await startRocketmq({ proxy: PROXY })
  console.log(server.metricsUrl)
})
afterAll(() => server.stop())
let n = 0
class T extends Topic {
  override make(o = {}) {
    const id = ++n
    const queue = super.make({
      ...o,
      onError: (e: any) => log(`c${id}`, 'ERROR', e?.code, e?.message),
      onDead: (m: any, why: string) => {
        this.dead.push(m)
        log(`c${id}`, 'DEAD', m.batchId, why)
      },
    })
    const base = (queue as any).module
    const of = (m: any) => {
      try {
        return JSON.parse(m.body.toString()).batchId
      } catch {
        return '?'
      }
    }
    let calls = 0
    ;(queue as any).module = {
      Producer: class extends base.Producer {
        async send(m: any) {
          const r = await super.send(m)
          log(`c${id}`, 'SENT', JSON.parse(m.body.toString()).batchId, r.messageId, r.offset)
          return r
        }
      },
      SimpleConsumer: class extends base.SimpleConsumer {
        async receive(c: number, i: number) {
          const k = ++calls
          log(`c${id}`, 'RECV>', k, c)
          try {
            const ms = await super.receive(c, i)
            for (const m of ms)
              log(
                `c${id}`,
                'GOT',
                k,
                of(m),
                m.messageId,
                'att',
                m.deliveryAttempt,
                '|',
                m.receiptHandle,
              )
            if (!ms.length) log(`c${id}`, 'EMPTY', k)
            return ms
          } catch (e: any) {
            log(`c${id}`, 'RECVERR', k, e.message)
            throw e
          }
        }
        async ack(m: any) {
          log(`c${id}`, 'ACK>', of(m), '|', m.receiptHandle)
          try {
            const r = await super.ack(m)
            log(`c${id}`, 'ACKED', of(m))
            return r
          } catch (e: any) {
            log(`c${id}`, 'ACKERR', of(m), e.message)
            throw e
          }
        }
        async changeInvisibleDuration(m: any, i: number) {
          log(`c${id}`, 'INV>', of(m), i, '|', m.receiptHandle)
          try {
            const r = await super.changeInvisibleDuration(m, i)
            log(`c${id}`, 'INVED', of(m), i, '|', m.receiptHandle)
            return r
          } catch (e: any) {
            log(`c${id}`, 'INVERR', of(m), e.message)
            throw e
          }
        }
      },
    }
    return queue
  }
  override async crash(queue: any) {
    log('CRASH')
    return super.crash(queue)
  }
}

async function make(): Promise<QueueUnderTest> {
  const topic = new T(server)
  await server.createTopic(topic.topic, { type: 'FIFO' })
  await server.createGroup(topic.group)
  return {
    queue: await topic.open(),
    dead: topic.dead,
    maxAttempts: MAX_ATTEMPTS,
    patienceMs: Number(process.env.V3PATIENCE ?? 12_000),
    claimMs: INVISIBLE_MS,
    second: () => topic.open(),
    crash: (queue) => topic.crash(queue),
    inject: (text) => topic.inject(text),
    close: async () => {
      log('CLOSE')
      const text = await (await fetch(server.metricsUrl)).text()
      for (const l of text.split('\n'))
        if (l.includes(topic.topic) && /lag|inflight|ready|revive/.test(l)) log('METRIC', l)
      for (const l of text.split('\n'))
        if (/revive|pop_/.test(l) && !l.startsWith('#')) log('METRIC', l)
      if (process.env.V3HOLD) await new Promise((r) => setTimeout(r, Number(process.env.V3HOLD)))
      await topic.close()
    },
  }
}
describe('debug', () => {
  const found = queueSuite(['durable', 'crash', 'inject']).find((c) => c.name.startsWith('V3'))!
  for (let i = 0; i < Number(process.env.V3RUNS ?? 3); i++)
    test(`V3 ${i}`, () => {
      log('=== RUN', i)
      return found.run(make)
    })
})
