import { OutboxDispatcher } from 'flash-sale-kit'
import { KnexOutbox } from 'flash-sale-kit/knex'
import { describe, expect, it } from 'vitest'
import type { DatabaseKind } from '../../harness/databases.js'
import { AUDIT, useOutbox } from './kit.js'

const NUMBERS: readonly unknown[] = [0, -1, 1.5, '5', null, undefined, Number.NaN, 1n, 1e9]
const WORDS: readonly unknown[] = ['', ' ', 'a b', '秒', 'a\0', 'x'.repeat(10_000), 7, 7n, null, {}]
const LISTS: readonly unknown[] = [null, undefined, 'abc', {}, 7, [null], ['x'], Array(1)]

export function outboxInputSuite(kind: DatabaseKind): void {
  describe(`bad input to the outbox on ${kind}`, () => {
    const kit = useOutbox(kind)

    it('C02: no method takes what is out of order, and nothing is written', async () => {
      const topic = kit.topic()
      await topic.add(2)
      const [held] = await topic.take({ limit: 1 })
      const { outbox } = kit
      const good = topic.message(3)
      const cycle: Record<string, unknown> = {}
      cycle['self'] = cycle
      const payloads: unknown[] = [
        undefined,
        () => 1,
        1n,
        { n: 1n },
        2 ** 60,
        { n: 2 ** 60 },
        cycle,
      ]
      const leases = [null, 'x', {}, { ...held, bizNo: 7 }, { ...held, lease: undefined }]
      const trx = await kit.knex.transaction()
      const calls: (() => Promise<unknown>)[] = [
        ...[null, 'x', [], ...WORDS.map((bizNo) => ({ ...good, bizNo }))].map(
          (message) => () => outbox.add(trx, message as never),
        ),
        ...['x'.repeat(129), 'release:1'].map((bizNo) => () => outbox.add(trx, { ...good, bizNo })),
        ...[...WORDS, 'a|b', 'x'.repeat(65), 'seckill.release'].flatMap((name) => [
          () => outbox.add(trx, { ...good, topic: name as never }),
          () =>
            topic.take({}, { take: outbox.take.bind(outbox, { topic: name } as never) } as never),
        ]),
        ...[...payloads, 'x'.repeat(60_000)].map(
          (payload) => () => outbox.add(trx, { ...good, payload: payload as never }),
        ),
        ...NUMBERS.flatMap((n) => [
          () => outbox.take({ topic: topic.name, limit: n as never, leaseMs: 1_000 }),
          () => outbox.take({ topic: topic.name, limit: 1, leaseMs: n as never }),
          () => outbox.renew([], n as never),
          () => outbox.parked({ limit: n as never }),
        ]),
        ...[...NUMBERS.filter((n) => n !== 1e9), 59_999].map((n) => () => outbox.purge(n as never)),
        () => outbox.take(undefined as never),
        () => outbox.parked(undefined as never),
        ...[...LISTS, ...leases.map((one) => [one])].flatMap((list) => [
          () => outbox.renew(list as never, 1_000),
          () => outbox.done(list as never),
          () => outbox.retry(list as never),
          () => outbox.park(list as never),
        ]),
        () => outbox.retry([{ message: held, error: 7 }] as never),
        ...[...LISTS.filter((list) => !Array.isArray(list) || list[0] !== 'x')].map(
          (list) => () => outbox.requeue(list as never, AUDIT),
        ),
        () => outbox.requeue(Array(401).fill('x'), AUDIT),
        ...[undefined, {}, { actor: '', reason: 'x' }].map(
          (audit) => () => outbox.requeue(['x'], audit as never),
        ),
      ]
      try {
        for (const [i, call] of calls.entries())
          await expect(call(), `call ${i} of ${calls.length}`).rejects.toMatchObject({
            name: 'FlashSaleError',
            code: 'BAD_INPUT',
          })
      } finally {
        await trx.commit()
      }
      expect(await topic.rows()).toHaveLength(2)
      expect((await topic.row(2)).retry_count).toBe(0)
    })

    it('options: names the one that is wrong, before any I/O', () => {
      const topics = { t: async () => {} }
      const good = { outbox: kit.outbox, topics }
      const wrong: [string, unknown][] = [
        ['options', null],
        ['outbox', { topics }],
        ['outbox', { topics, outbox: {} }],
        ['topics', { outbox: kit.outbox }],
        ['topics', { ...good, topics: {} }],
        ['topics', { ...good, topics: { t: 'print' } }],
        ['topics', { ...good, topics: { 'a b': topics.t } }],
        ['onAlert', { ...good, onAlert: 'page me' }],
        ...['leaseMs', 'batch', 'everyMs', 'handlerTimeoutMs'].flatMap((name) =>
          [0, -1, 1.5, '5', Number.NaN, null, 1e12].map((value): [string, unknown] => [
            name,
            { ...good, [name]: value },
          ]),
        ),
      ]
      for (const [name, o] of wrong)
        expect(() => new OutboxDispatcher(o as never), name).toThrow(name)
      expect(() => new KnexOutbox({} as never)).toThrow('option knex')
    })
  })
}
