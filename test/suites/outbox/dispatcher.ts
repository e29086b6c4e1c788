import { setTimeout as sleep } from 'node:timers/promises'
import {
  type DueMessage,
  type Outbox,
  OutboxDispatcher,
  type OutboxDispatcherOptions,
  type OutboxHandler,
} from 'flash-sale-kit'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { until } from '../../harness/net.js'
import { type Topic, useOutbox } from './kit.js'

export function dispatcherSuite(kind: DatabaseKind): void {
  describe(`OutboxDispatcher on ${kind}`, () => {
    const kit = useOutbox(kind)

    /** A dispatcher of one topic, what it was asked to send and what it alerted. */
    function dispatch(
      topic: Topic,
      handler: OutboxHandler = async () => {},
      o: Partial<OutboxDispatcherOptions> = {},
    ) {
      const groups: string[][] = []
      const alerts: { readonly code: string; readonly detail: Record<string, unknown> }[] = []
      const dispatcher = new OutboxDispatcher({
        outbox: kit.outbox,
        topics: {
          [topic.name]: (messages, more) => {
            groups.push(messages.map(nameOf))
            return handler(messages, more)
          },
        },
        onAlert: (code, detail) => alerts.push({ code, detail }),
        ...o,
      })
      return { dispatcher, groups, alerts }
    }

    it('C22 (a): a lower id that commits later is sent all the same', async () => {
      const topic = kit.topic()
      const { dispatcher, groups } = dispatch(topic)
      const addLate = await laterCommit(kind, topic)
      await dispatcher.run()
      expect(groups).toEqual([['2']])
      await addLate()
      await dispatcher.run()
      expect(groups).toEqual([['2'], ['1']])
      expect((await topic.row(1)).id).toBeLessThan((await topic.row(2)).id)
      expect(await topic.statuses()).toEqual({ 1: 2 })
    })

    it('C22 (b): a send that takes longer than the lease keeps it: nobody else is given the messages', async () => {
      const topic = kit.topic()
      await topic.add(3)
      let sending = false
      let release = () => {}
      const sent = new Promise<void>((resolve) => {
        release = resolve
      })
      const { dispatcher, groups } = dispatch(
        topic,
        async () => {
          sending = true
          await sent
        },
        { leaseMs: 4_000 },
      )
      const running = dispatcher.run()
      await until('the handler runs', () => sending)
      const first = await topic.row()
      await until('the lease would be over', async () => {
        expect(await topic.take()).toEqual([])
        const now = await topic.row()
        return now.next_retry_time > first.next_retry_time + 4_000
      })
      release()
      await running
      expect(groups).toEqual([['1', '2', '3']])
      expect(await topic.statuses()).toEqual({ 1: 3 })
      expect((await topic.rows()).every((row) => row.retry_count === 1)).toBe(true)
    })

    it('C22 (b): a lease that was lost aborts the signal, and what the late handler answers changes nothing', async () => {
      const topic = kit.topic()
      await topic.add(1)
      const slow = dispatch(
        topic,
        async (_, { signal }) => {
          const other = dispatch(topic).dispatcher
          await until('another process has taken and sent it', async () => {
            await topic.due() // as if the database had not heard of this process for a lease
            await other.run()
            return (await topic.row()).status === 1
          })
          await until('the signal aborts', () => signal.aborted)
          return 'dead'
        },
        { leaseMs: 200 },
      )
      await slow.dispatcher.run()
      expect(await topic.row()).toMatchObject({ status: 1, retry_count: 2 })
      expect(slow.alerts).toEqual([])
      expect(await topic.tasks()).toEqual([])
    })

    it('C22 (d): one poison message among 100: the other 99 go out, once each', async () => {
      const topic = kit.topic()
      await topic.add(100)
      const sent: string[] = []
      const handler: OutboxHandler = async (messages) => {
        if (messages.some((m) => nameOf(m) === '37')) throw new Error('37 is no order')
        sent.push(...messages.map(nameOf))
      }
      // More than there are: one round takes once.
      const { dispatcher, groups } = dispatch(topic, handler, { batch: 101 })
      await dispatcher.run()
      expect(sent).toHaveLength(99)
      expect(new Set(sent).size).toBe(99)
      expect(await topic.statuses()).toEqual({ 0: 1, 1: 99 })
      expect((await topic.row(37)).retry_count).toBe(1)
      // 100, then two halves each time one of them throws: seven halvings at most.
      expect(groups.length).toBeLessThanOrEqual(15)
    })

    it('C22 (d): a message whose payload cannot be read is parked and the others go out', async () => {
      const topic = kit.topic()
      await topic.add(3)
      await kit
        .knex('local_message')
        .where({ biz_no: `${topic.name}:2` })
        .update({ payload: '{"n":' })
      const { dispatcher, groups, alerts } = dispatch(topic)
      await dispatcher.run()
      expect(groups).toEqual([['1', '3']])
      expect(await topic.statuses()).toEqual({ 1: 2, 2: 1 })
      expect(alerts).toMatchObject([
        { code: 'outbox-parked', detail: { bizNo: `${topic.name}:2`, topic: topic.name } },
      ])
    })

    it('D4: an answer for each message: sent, tried again, parked', async () => {
      const topic = kit.topic()
      await topic.add(3)
      const { dispatcher, groups, alerts } = dispatch(topic, async () => ['ack', 'retry', 'dead'])
      await dispatcher.run()
      expect(groups).toHaveLength(1)
      expect((await topic.rows()).map((row) => row.status)).toEqual([1, 0, 2])
      expect(alerts.map((a) => [a.code, a.detail['bizNo']])).toEqual([
        ['outbox-parked', `${topic.name}:3`],
      ])
      expect(await topic.tasks()).toHaveLength(1)
    })

    it('D4: one answer for all; what is no answer is tried again, whole', async () => {
      const topic = kit.topic()
      await topic.add(2)
      for (const answer of ['retry', 'yes', ['ack'], ['ack', 'sent'], { ack: true }]) {
        await topic.due()
        const { dispatcher, groups } = dispatch(topic, async () => answer as never)
        await dispatcher.run()
        expect(groups).toEqual([['1', '2']])
        expect(await topic.statuses()).toEqual({ 0: 2 })
      }
      await topic.due()
      await dispatch(topic, async () => 'ack').dispatcher.run()
      expect(await topic.statuses()).toEqual({ 1: 2 })
    })

    it('C22 (g): ten tries used up: parked, alerted, with a manual task; put back, it is sent', async () => {
      const topic = kit.topic()
      await topic.add(1)
      const attempts: number[] = []
      const { dispatcher, alerts } = dispatch(topic, async ([message]) => {
        attempts.push(message?.attempt as number)
        throw new Error('the broker is away')
      })
      for (let i = 0; i < 12; i++) {
        await dispatcher.run()
        await topic.due()
      }
      expect(attempts).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      expect(alerts).toEqual([
        {
          code: 'outbox-parked',
          detail: {
            topic: topic.name,
            bizNo: `${topic.name}:1`,
            error: 'Error: the broker is away',
          },
        },
      ])
      expect(await topic.tasks()).toHaveLength(1)
      expect(await topic.statuses()).toEqual({ 2: 1 })
      const audit = { actor: 'op', reason: 'it is back' }
      await kit.outbox.requeue([`${topic.name}:1`], audit)
      const back = dispatch(topic)
      await back.dispatcher.run()
      expect(back.groups).toEqual([['1']])
      expect(await topic.statuses()).toEqual({ 1: 1 })
    })

    it('C22 (g): a message whose ten tries never ended is parked, not handed over again', async () => {
      const topic = kit.topic()
      await topic.add(2)
      for (let i = 0; i < 10; i++) {
        await topic.take({ limit: 1 })
        await kit
          .knex('local_message')
          .where({ biz_no: `${topic.name}:1` })
          .update({ next_retry_time: 1 })
      }
      const { dispatcher, groups, alerts } = dispatch(topic)
      await dispatcher.run()
      expect(groups).toEqual([['2']])
      expect(alerts.map((a) => a.detail['bizNo'])).toEqual([`${topic.name}:1`])
      expect(await topic.statuses()).toEqual({ 1: 1, 2: 1 })
    })

    it('D4: a handler that never answers fails at its limit, and its signal says so', async () => {
      const topic = kit.topic()
      await topic.add(1)
      let signal: AbortSignal | undefined
      const { dispatcher } = dispatch(
        topic,
        (_, o) => {
          signal = o.signal
          return new Promise(() => {})
        },
        { handlerTimeoutMs: 50 },
      )
      await dispatcher.run()
      expect(signal?.aborted).toBe(true)
      expect(await topic.row()).toMatchObject({ status: 0, retry_count: 1 })
    })

    it('D4: works off what is there in groups, in the background, and stop drains what was begun', async () => {
      const topic = kit.topic()
      await topic.add(25)
      let begun = 0
      let ended = 0
      let hold: Promise<void> = Promise.resolve()
      const { dispatcher, groups } = dispatch(
        topic,
        async () => {
          begun++
          await hold
          ended++
        },
        { batch: 10, everyMs: 10 },
      )
      await dispatcher.start()
      await until('25 are sent', async () => (await topic.statuses())[1] === 25)
      expect(groups.map((group) => group.length).sort()).toEqual([10, 10, 5])

      let release = () => {}
      hold = new Promise((resolve) => {
        release = resolve
      })
      await kit.knex.transaction((trx) => kit.outbox.add(trx, topic.message(26)))
      await until('the 26th is being sent', () => begun === 4)
      const stops = [dispatcher.stop(), dispatcher.stop()]
      expect(stops[0]).toBe(stops[1])
      await sleep(20)
      expect(ended).toBe(3)
      release()
      await Promise.all(stops)
      expect(ended).toBe(4)
      expect(await topic.statuses()).toEqual({ 1: 26 })
      await expect(dispatcher.start()).rejects.toMatchObject({ code: 'STOPPED' })
      await kit.knex.transaction((trx) => kit.outbox.add(trx, topic.message(27)))
      await sleep(50)
      expect(begun).toBe(4)
    })

    it('D4: a stop that has waited long enough aborts the signal of what still runs', async () => {
      const topic = kit.topic()
      await topic.add(1)
      let signal: AbortSignal | undefined
      const { dispatcher } = dispatch(topic, (_, o) => {
        signal = o.signal
        return new Promise((_, reject) => o.signal.addEventListener('abort', () => reject('cut')))
      })
      await dispatcher.start()
      await until('it is being sent', () => signal !== undefined)
      const { next_retry_time: leaseEnds } = await topic.row()
      await dispatcher.stop({ drainMs: 1 })
      expect(signal?.aborted).toBe(true)
      await until('it is given back', async () => (await topic.row()).next_retry_time < leaseEnds)
      expect(await topic.row()).toMatchObject({ status: 0, retry_count: 1 })
    })

    it.each([5_000, 1])(
      'D4: a stop begins no further call, with the halves of a group neither (drainMs %i)',
      async (drainMs) => {
        const topic = kit.topic()
        await topic.add(8)
        let fail = () => {}
        const { dispatcher, groups } = dispatch(
          topic,
          () =>
            new Promise((_, reject) => {
              fail = () => reject(new Error('the broker is away'))
            }),
        )
        await dispatcher.start()
        await until('the group is being sent', () => groups.length === 1)
        fail()
        await until('its first half is being sent', () => groups.length === 2)
        const stopping = dispatcher.stop({ drainMs })
        if (drainMs === 1) await stopping
        const { next_retry_time: leaseEnds } = await topic.row(8)
        fail()
        await stopping
        await until('all are given back', async () =>
          (await topic.rows()).every((row) => row.next_retry_time < leaseEnds),
        )
        expect(groups.map((group) => group.length)).toEqual([8, 4])
        expect(await topic.statuses()).toEqual({ 0: 8 })
      },
    )

    it('D4: what a take brings after the stop is given back, and no handler sees it', async () => {
      const topic = kit.topic()
      await topic.add(2)
      let taking = false
      let bring = () => {}
      const brought = new Promise<void>((resolve) => {
        bring = resolve
      })
      const { outbox } = kit
      const slow: Outbox = {
        take: async (o) => {
          const taken = await outbox.take(o)
          taking = true
          await brought
          return taken
        },
        renew: (...o) => outbox.renew(...o),
        done: (...o) => outbox.done(...o),
        retry: (...o) => outbox.retry(...o),
        park: (...o) => outbox.park(...o),
      }
      const { dispatcher, groups } = dispatch(topic, undefined, { outbox: slow })
      await dispatcher.start()
      await until('some are taken', () => taking)
      const { next_retry_time: leaseEnds } = await topic.row()
      const stopping = dispatcher.stop()
      bring()
      await stopping
      expect(groups).toEqual([])
      const rows = await topic.rows()
      expect(rows.every((row) => row.status === 0 && row.next_retry_time < leaseEnds)).toBe(true)
      await topic.due()
      await dispatcher.run()
      expect(groups).toEqual([])
      expect((await topic.rows()).map((row) => row.retry_count)).toEqual([1, 1])
    })

    it('D4: two dispatchers of one topic send each message once; a topic that hangs does not hold up another', async () => {
      const topic = kit.topic()
      const stuck = kit.topic()
      await topic.add(40)
      await stuck.add(1)
      const sent: string[] = []
      let hangs = false
      let release = () => {}
      const hang = new Promise<void>((resolve) => {
        release = resolve
      })
      const topics = {
        [topic.name]: async (messages: readonly DueMessage[]) => {
          sent.push(...messages.map(nameOf))
        },
        [stuck.name]: async () => {
          hangs = true
          await hang
        },
      }
      const dispatchers = [1, 2].map(
        () => new OutboxDispatcher({ outbox: kit.outbox, topics, batch: 3, everyMs: 10 }),
      )
      await Promise.all(dispatchers.map((d) => d.start()))
      await until('40 are sent', async () => (await topic.statuses())[1] === 40)
      expect(hangs).toBe(true)
      release()
      await Promise.all(dispatchers.map((d) => d.stop()))
      expect(sent).toHaveLength(40)
      expect(await stuck.statuses()).toEqual({ 1: 1 })
    })
  })
}

const nameOf = (message: { readonly bizNo: string }) => message.bizNo.split(':')[1] as string

/**
 * Message 2 is committed, and 1, which was written before it and has the lower id, will be when the result is called.
 * SQLite has one writer, so there nothing commits late; there the row comes back under its lower id.
 */
async function laterCommit(kind: DatabaseKind, topic: Topic): Promise<() => Promise<unknown>> {
  const { knex, outbox } = topic
  const addSecond = () => knex.transaction((trx) => outbox.add(trx, topic.message(2)))
  if (kind === 'sqlite') {
    await topic.add(1)
    const [row] = await knex('local_message').where({ topic: topic.name })
    await knex('local_message').where({ topic: topic.name }).delete()
    await addSecond()
    return async () => knex('local_message').insert(row)
  }
  const first = await knex.transaction()
  await outbox.add(first, topic.message(1))
  await addSecond()
  return async () => first.commit()
}
