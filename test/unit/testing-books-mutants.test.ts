import type { DbNumbers, OrderBook, Reservation } from 'flash-sale-kit'
import {
  activityControlSuite,
  activityStoreSuite,
  MemoryActivityControl,
  MemoryActivityStore,
  MemoryOrderBook,
  type OrderBookUnderTest,
  orderBookSuite,
} from 'flash-sale-kit/testing'
import { describe, expect, test } from 'vitest'

interface Case {
  readonly name: string
  run(): Promise<void>
}
/** A way to be wrong, and words of the cases that must notice. */
type Mutant<T> = readonly [string, T, readonly string[]]

function mutantsOf<T>(mutants: readonly Mutant<T>[], suite: (mutant: T) => readonly Case[]): void {
  test.each(mutants)('the suite notices %s', async (_, mutant, words) => {
    for (const word of words) {
      const named = suite(mutant).filter(({ name }) => name.includes(word))
      expect(named, word).not.toEqual([])
      for (const { name, run } of named)
        await expect(run().then(() => `passed: ${name}`)).rejects.toThrow()
    }
  })
  test('every case of the suite is seen to fail', () => {
    const words = mutants.flatMap(([, , its]) => its)
    const [first] = mutants
    const names = first ? suite(first[1]).map(({ name }) => name) : []
    expect(names.filter((name) => !words.some((word) => name.includes(word)))).toEqual([])
  })
}

describe('orderBookSuite', () => {
  type Change = (book: MemoryOrderBook) => Partial<OrderBook>
  const under = (change: Change) => async (): Promise<OrderBookUnderTest> => {
    let passed = 0
    const control = new MemoryActivityControl()
    const book = new MemoryOrderBook({ control, clock: () => Date.now() + passed })
    const bound = new Proxy(book, {
      get(target, name) {
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const changed = change(bound)
    const mutant = new Proxy(bound, {
      get: (target, name) => Reflect.get(changed, name) ?? Reflect.get(target, name),
    })
    return {
      book: mutant,
      another: () => mutant,
      pay: async (orderNo) => book.pay(orderNo),
      async passTime(ms) {
        passed += ms
      },
      tasks: async () => book.tasks,
      async control(activityId, to) {
        await control.set(activityId, to, { actor: 'suite', reason: 'a test' })
      },
      close: async () => {},
    }
  }
  /** Reads, waits a moment and then writes what it has read: what a transaction is there to prevent. */
  const late = () => new Promise((resolve) => setTimeout(resolve, 1))

  const MUTANTS: readonly Mutant<Change>[] = [
    [
      'a price from the payload',
      (book) => ({
        confirm: (rs) => book.confirm(rs.map(({ payload: _, ...r }) => r)),
      }),
      ['D1 D2: confirms a batch'],
    ],
    [
      'everything fresh',
      (book) => ({
        confirm: async (rs) => (await book.confirm(rs)).map((v) => ({ ...v, fresh: true })),
      }),
      [
        'D2: a batch that comes again',
        'whoever first writes a number',
        'closeUnbooked closes what',
      ],
    ],
    [
      'refusals without a row',
      (book) => ({
        async confirm(rs) {
          const verdicts = await book.confirm(rs)
          for (const v of verdicts) if (v.status === 'closed') book.rows.delete(v.orderNo)
          return verdicts
        },
      }),
      ['V2: sixteen batches'],
    ],
    [
      'a batch that ends with the first that does not fit',
      (book) => ({
        async confirm(rs) {
          const verdicts = []
          for (const [i, r] of rs.entries()) {
            const [verdict] = await book.confirm([r])
            if (verdict) verdicts.push(verdict)
            if (verdict?.status === 'closed')
              return [...verdicts, ...(await book.closeUnbooked(rs.slice(i + 1), 'sold-out'))]
          }
          return verdicts
        },
      }),
      ['C05', 'D3: closes what names'],
    ],
    [
      'two live orders of a buyer',
      (book) => ({
        confirm: async (rs) => {
          const verdicts = await book.confirm(rs)
          for (const v of verdicts)
            if (v.status === 'closed' && v.reason === 'already-bought') {
              const row = book.rows.get(v.orderNo)
              if (row) book.rows.set(v.orderNo, { ...row, status: 'confirmed', reason: null })
            }
          return verdicts
        },
      }),
      ['C18'],
    ],
    [
      'buyers in small letters',
      (book) => ({
        confirm: (rs) => book.confirm(rs.map((r) => ({ ...r, userId: r.userId.toLowerCase() }))),
      }),
      ['C10 C11'],
    ],
    [
      'a signal that nobody heeds',
      (book) => ({ confirm: (rs) => book.confirm(rs) }),
      ['signal is aborted'],
    ],
    [
      'a close of what is confirmed',
      (book) => ({
        async closeUnbooked(rs, reason) {
          const numbers = rs.map((r) => r.orderNo)
          await book.closeUnpaid(numbers, reason)
          return book.closeUnbooked(rs, reason)
        },
      }),
      ['closeUnbooked closes what has no row'],
    ],
    [
      'units that stay away',
      (book) => ({
        async closeUnpaid(nos, reason) {
          const verdicts = await book.closeUnpaid(nos, reason)
          for (const v of verdicts)
            if (v.fresh) {
              const row = book.rows.get(v.orderNo)
              if (row) book.rows.set(v.orderNo, { ...row, reason: 'refunded' })
            }
          return verdicts
        },
      }),
      ['P2: closeUnpaid gives', 'C21: eight closes', 'C21: a payment and a close'],
    ],
    [
      'releases that are offered to all',
      (book) => ({ takeReleases: (o) => book.takeReleases({ ...o, leaseMs: 0 }) }),
      ['D3: a release that Redis did not take'],
    ],
    [
      'releases that are never told',
      (book) => ({
        released: async () => {},
        retryReleases: async (rs) => {
          await book.released(rs.map((r) => r.reservation.orderNo))
          return []
        },
      }),
      ['D3: what Redis is owed', 'D3: a release that Redis did not take', 'R2'],
    ],
    [
      'a prepare that begins anew',
      (book) => ({
        async prepare(activity) {
          await late()
          const next = { ...activity, version: `${activity.version}-${Math.random()}` }
          return book.prepare(next)
        },
      }),
      ['C03: eight prepare', 'C03: a version that never sold', 'C03: other terms'],
    ],
    [
      'a prepare that forgets what was added',
      (book) => ({
        prepare: async (activity) =>
          (await book.prepare(activity)).map((numbers) => ({ ...numbers, topUps: [] })),
      }),
      ['S7: what is prepared again'],
    ],
    [
      'a top-up for each call',
      (book) => ({
        topUp: (ref, units, id, audit) =>
          book.topUp(ref, units, `${id}-${Math.random()}`.slice(0, 64), audit),
      }),
      ['S7: tops up once'],
    ],
    [
      'a refusal that nobody hears',
      (book) => ({
        topUp: (ref, units, id, audit) =>
          book
            .topUp(ref, units, id, audit)
            .catch(async () => (await book.numbers(ref)) as DbNumbers),
      }),
      ['S7: withdraws what is available', 'S7: confirms and withdrawals', 'takes no top-up'],
    ],
    [
      'rows in another order',
      (book) => ({
        find: async (nos) => [...(await book.find(nos))].reverse(),
        async *snapshot(ref) {
          const rows = []
          for await (const row of book.snapshot(ref)) rows.push(row)
          yield* rows.reverse()
        },
      }),
      ['find: rows in the order', 'snapshot: every row'],
    ],
    [
      'the oldest order of a buyer',
      (book) => ({
        findByBuyer: async (_, userId) =>
          [...book.rows.values()].find((row) => row.userId === userId) ?? null,
      }),
      ['findByBuyer'],
    ],
    [
      'a snapshot that can be opened ten times',
      (book) => {
        let open = 0
        return {
          async *snapshot(ref, after) {
            if (++open > 10) throw new Error('no connection is free')
            yield* book.snapshot(ref, after)
          },
        }
      },
      ['snapshot: can be left'],
    ],
    [
      'a task for each call',
      (book) => ({
        addManualTask: async (task) => {
          book.tasks.push(task)
        },
      }),
      ['a manual task'],
    ],
    [
      'losers with a row',
      (book) => ({
        async buy(r: Reservation) {
          const answer = await book.buy(r)
          if (answer.status !== 'confirmed') await book.closeUnbooked([r], 'lost')
          return answer
        },
      }),
      ['S11: 60 buyers', 'S11: refuses with the reason'],
    ],
    [
      'a repeat that is a new click',
      (book) => ({ buy: (r) => book.buy({ ...r, orderNo: `${r.orderNo}-${Math.random()}` }) }),
      ['S11: answers a repeat', 'S11: tells a buyer'],
    ],
  ]

  mutantsOf(MUTANTS, (change) =>
    orderBookSuite(['strong']).map(({ name, run }) => ({ name, run: () => run(under(change)) })),
  )
})

describe('activityControlSuite', () => {
  type Change = (control: MemoryActivityControl) => Partial<MemoryActivityControl>
  const suiteOf = (change: Change) =>
    activityControlSuite().map(({ name, run }) => ({
      name,
      run: () => {
        const right = new MemoryActivityControl()
        const control = new Proxy(right, {
          get(target, name) {
            const value = Reflect.get(change(right), name) ?? Reflect.get(target, name)
            return typeof value === 'function' ? value.bind(target) : value
          },
        })
        const audited = async (id: string | null) =>
          right.acts.filter((act) => act.activityId === id).length
        return run(async () => ({
          control,
          another: () => control,
          audited,
          close: async () => {},
        }))
      },
    }))
  const MUTANTS: readonly Mutant<Change>[] = [
    [
      'an open sale that nobody opened',
      (right) => ({ read: async (id) => ({ ...(await right.read(id)), state: 'open' }) }),
      ['nobody has touched'],
    ],
    [
      'an act that nobody hears of',
      () => ({ lastAct: async () => null }),
      ['is seen by everybody'],
    ],
    [
      'conditions that nobody heeds',
      (right) => ({ setIf: (id, to, audit) => right.set(id, to, audit) }),
      ['an act on condition', 'of eight acts'],
    ],
    [
      'an epoch that is read, and written later',
      (right) => ({
        async revokeTokens(id, audit) {
          const { tokenEpoch } = await right.read(id)
          await right.revokeTokens(id, audit)
          return tokenEpoch + 1
        },
      }),
      ['T1'],
    ],
    ['consumers that always run', () => ({ readConsumers: async () => 'running' }), ['Q4']],
    [
      'ids in small letters',
      (right) => ({
        read: (id) => right.read(id.toLowerCase()),
        set: (id, to, audit) => right.set(id.toLowerCase(), to, audit),
      }),
      ['C10'],
    ],
    [
      'acts of nobody',
      (right) => ({
        set: (id, to, audit) =>
          right.set(id, to, audit.actor ? audit : { actor: '?', reason: '?' }),
      }),
      ['without who and why'],
    ],
  ]
  mutantsOf(MUTANTS, suiteOf)
})

describe('activityStoreSuite', () => {
  type Change = (store: MemoryActivityStore) => Partial<MemoryActivityStore>
  const suiteOf = (change: Change) =>
    activityStoreSuite(['settles']).map(({ name, run }) => ({
      name,
      run: () => {
        const right = new MemoryActivityStore()
        const store = {
          load: right.load.bind(right),
          live: right.live.bind(right),
          ...change(right),
        }
        const put = async (activity: Parameters<typeof right.save>[0]) => right.save(activity)
        return run(async () => ({ store, put, settle: async () => {}, close: async () => {} }))
      },
    }))
  const cached = (right: MemoryActivityStore): Partial<MemoryActivityStore> => {
    const seen = new Map<string, ReturnType<typeof right.load>>()
    return {
      load(id) {
        if (!seen.has(id)) seen.set(id, right.load(id))
        return seen.get(id) ?? right.load(id)
      },
    }
  }
  const MUTANTS: readonly Mutant<Change>[] = [
    [
      'instants as text',
      (right) => ({
        load: async (id) => {
          const activity = await right.load(id)
          return activity && { ...activity, opensAt: String(activity.opensAt) as never }
        },
      }),
      ['as it was written'],
    ],
    [
      'an error for what is not there',
      (right) => ({
        load: async (id) => {
          const activity = await right.load(id)
          if (!activity) throw new Error('not found')
          return activity
        },
      }),
      ['is null, and no error', 'C10'],
    ],
    ['a copy that is never read again', cached, ['a new version']],
    [
      'only sales that are on',
      (right) => ({
        async live() {
          const all = await Promise.all((await right.live()).map((id) => right.load(id)))
          return all.flatMap((a) => (a && a.endsAt > Date.now() ? [a.activityId] : []))
        },
      }),
      ['lists each activity'],
    ],
    ['sales that are never settled', () => ({}), ['listed no more']],
  ]
  mutantsOf(MUTANTS, suiteOf)
})
