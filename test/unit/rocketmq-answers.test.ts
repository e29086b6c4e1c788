import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { lagIn, Metrics } from '../../src/rocketmq/lag.js'
import { outcomeOf } from '../../src/rocketmq/outcome.js'
import { correctHandle } from '../../src/rocketmq/receipt.js'

const withCode = (code: number, message = 'said the broker') =>
  Object.assign(new Error(message), { code })

describe('outcomeOf', () => {
  it.each([
    ['an illegal topic', withCode(40_002)],
    ['an illegal message group', withCode(40_006)],
    ['forbidden', withCode(40_300)],
    ['a missing topic', withCode(40_402)],
    ['a body too large', withCode(41_301)],
    ['too many requests', withCode(42_900)],
    ['properties too large', withCode(43_101)],
    ['the wrong type', new TypeError('Current message type not match with topic accept …')],
    ['over 4 MB', new TypeError('Message body size exceeds the threshold, max size=4 bytes')],
  ])('is rejected for %s', (_, error) => expect(outcomeOf(error)).toBe('rejected'))

  it.each([
    [
      'no connection',
      withCode(14, '14 UNAVAILABLE: No connection established. Last error: ECONNREFUSED'),
    ],
    ['no such host', withCode(14, '14 UNAVAILABLE: Name resolution failed for target dns:x')],
    ['a request that timed out', withCode(40_800)],
    ['an internal error', withCode(50_001)],
    ['no replica', withCode(50_002)],
    ['a slow proxy', withCode(50_400)],
    ['a slow disk', withCode(50_401)],
    ['a code nobody knows', withCode(60_000)],
    ['the deadline', withCode(4, '4 DEADLINE_EXCEEDED: Deadline exceeded after 1.0s')],
    ['a connection that broke', withCode(14, '14 UNAVAILABLE: Connection dropped')],
    ['a reset', withCode(14, '14 UNAVAILABLE: read ECONNRESET')],
    ['a mistake in the client', new TypeError('cannot read properties of undefined')],
    ['no error', undefined],
    ['a text', 'rejected'],
  ])('is unknown for %s', (_, error) => expect(outcomeOf(error)).toBe('unknown'))
})

describe('lagIn', () => {
  const line = (labels: string, value: string, name = 'rocketmq_consumer_lag_messages') =>
    `${name}{cluster="c",${labels},node_id="b"} ${value}\n`
  const mine = 'consumer_group="g",is_retry="false",topic="t"'

  it('sums brokers and retries of one group on one topic', () => {
    const text = [
      '# HELP rocketmq_consumer_lag_messages Consumer lag messages\n',
      line(mine, '4.0'),
      line('consumer_group="g",is_retry="true",topic="t"', '1.0'),
      line('consumer_group="g2",is_retry="false",topic="t"', '100.0'),
      line('consumer_group="g",is_retry="false",topic="t2"', '100.0'),
      line('consumer_group="g",is_retry="false",other_topic="t"', '100.0'),
      line(mine, '250.0', 'rocketmq_consumer_lag_latency_milliseconds'),
      line(mine, '9.0', 'rocketmq_consumer_lag_messages_created'),
    ].join('')
    expect(lagIn(text, 't', 'g')).toEqual({ messages: 5, oldestAgeMs: 250 })
  })

  it('is never negative, and null where nothing is told', () => {
    expect(lagIn(line(mine, '-3.0'), 't', 'g')).toEqual({ messages: 0, oldestAgeMs: 0 })
    expect(lagIn(line(mine, 'NaN'), 't', 'g')).toBeNull()
    expect(lagIn('', 't', 'g')).toBeNull()
  })
})

describe('correctHandle', () => {
  const corrected = (receiptHandle: string) => {
    const message = { body: Buffer.from(''), receiptHandle }
    correctHandle(message)
    return message.receiptHandle
  }

  it('has a renewed handle start at its own message', () => {
    const renewed = (start: number) => `${start} 1795987516400 2000 0 0 broker-a 0 3 0 2924`
    expect(corrected(renewed(0))).toBe(renewed(3))
    expect(corrected(renewed(3))).toBe(renewed(3))
  })

  it('leaves alone what it does not know', () => {
    for (const handle of ['', 'opaque', 'a 1 2 3 4 b 6 7', '0 1 2 3 4 b 6 x'])
      expect(corrected(handle)).toBe(handle)
  })
})

it('metrics are asked for once for all who want them at about the same time, and again later', async () => {
  let asked = 0
  const server = createServer((_, res) => {
    asked++
    if (asked === 2) res.statusCode = 500
    res.end(`answer ${asked}`)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const metrics = new Metrics([
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`,
  ])
  try {
    const all = await Promise.all([metrics.read(), metrics.read(), metrics.read()])
    expect([...new Set([...all, await metrics.read()])]).toEqual(['answer 1'])
    await sleep(1_100)
    for (const read of [metrics.read(), metrics.read()])
      await expect(read).rejects.toThrow('answered 500')
    await sleep(1_100)
    expect(await metrics.read()).toBe('answer 3')
    expect(asked).toBe(3)
  } finally {
    server.close()
  }
})
