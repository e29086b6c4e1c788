import { fail, ok } from 'node:assert/strict'
import type { OutboxHandlerCheck } from '../outbox-handler-suite.js'

export const handing: readonly OutboxHandlerCheck[] = [
  {
    name: 'D4: a message is sent',
    async check(bench) {
      const messages = bench.messages(1)
      await bench.sent(messages, await bench.deliver(messages), 'one delivery')
    },
  },
  {
    name: 'D4: a group of 100 is sent, each of it, once',
    async check(bench) {
      const messages = bench.messages(100)
      await bench.sent(messages, await bench.deliver(messages), 'one delivery')
    },
  },
  {
    name: 'D4: a message that comes again though it was sent is in effect once',
    async check(bench) {
      const messages = bench.messages(3)
      await bench.deliver(messages)
      const again = [...messages].reverse()
      await bench.sent(again, await bench.deliver(again, { attempt: 2 }), 'a second delivery')
    },
  },
  {
    name: 'D4: a message that comes again beside fresh ones does not hold them up',
    async check(bench) {
      const messages = bench.messages(4)
      await bench.deliver(messages.slice(0, 2))
      const fates = await bench.deliver(messages, { attempt: 2 })
      await bench.sent(messages, fates, 'a delivery beside older ones')
    },
  },
  {
    name: 'D4: two processes with the same messages at once: in effect once',
    async check(bench) {
      const messages = bench.messages(5)
      await Promise.all([bench.deliver(messages), bench.deliver([...messages].reverse())])
      const fates = await bench.deliver(messages, { attempt: 2 })
      await bench.sent(messages, fates, 'two deliveries at once')
    },
  },
  {
    name: 'D4: what is cut off at once is over soon, and sent by the next try',
    async check(bench) {
      const messages = bench.messages(2)
      await bench.deliver(messages, { signal: AbortSignal.abort() })
      const fates = await bench.deliver(messages, { attempt: 2 })
      await bench.sent(messages, fates, 'a try that was cut off')
    },
  },
  {
    name: 'D4: while nobody can be reached nothing counts as sent, nor as never to be sent',
    needs: ['outage'],
    async check(bench) {
      const { outage } = bench.under
      if (!outage) return fail('give the suite `outage`, or leave out the feature')
      const messages = bench.messages(3)
      await outage.call(bench.under, true)
      for (const attempt of [1, 2]) {
        const fates = await bench.deliver(messages, { attempt })
        for (const { bizNo } of messages) {
          const fate = fates.get(bizNo)
          ok(fate === 'retry', `${bizNo} counts as ${fate} though nobody could be reached`)
        }
      }
      await outage.call(bench.under, false)
      const fates = await bench.deliver(messages, { attempt: 3 })
      await bench.sent(messages, fates, 'an outage')
    },
  },
  {
    name: 'Q5: a message that can never be sent does not count as sent, and those beside it are',
    needs: ['poison'],
    async check(bench) {
      const poison = bench.under.poison?.() ?? fail('give the suite `poison`')
      const messages = bench.messages(6)
      const group = [...messages.slice(0, 3), poison, ...messages.slice(3)]
      const fates = await bench.deliver(group)
      await bench.sent(messages, fates, 'a delivery beside one at fault')
      ok(fates.get(poison.bizNo) !== 'ack', 'the message at fault counts as sent')
      await bench.received(poison.bizNo, 0, 'a delivery in which it is at fault')
    },
  },
]
