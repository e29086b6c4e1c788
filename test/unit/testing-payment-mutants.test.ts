import type { ChannelCall, PaymentRequest, RefundRequest } from 'flash-sale-kit'
import { newOrderNo } from 'flash-sale-kit'
import { type ChannelMethod, paymentProviderSuite } from 'flash-sale-kit/testing'
import { expect, test } from 'vitest'
import {
  type Changed,
  HttpPayments,
  httpChannelUnderTest,
  readCallback,
} from './testing-payment-channel.js'

type Call = (method: ChannelMethod, body: unknown, o: ChannelCall) => Promise<unknown>

/** An adapter whose calls go through `change`; `call` is the right one. */
const changed = (change: (call: Call) => Call): Changed => ({
  provider: (url) => {
    class Mutant extends HttpPayments {
      readonly #changed = change((method, body, o) => super.call(method, body, o))
      protected override call<T>(method: ChannelMethod, body: unknown, o: ChannelCall): Promise<T> {
        return this.#changed(method, body, o) as Promise<T>
      }
    }
    return new Mutant(url)
  },
})

/** What one method sends, or what it hears, is changed; the others are right. */
const sends = <T>(method: ChannelMethod, change: (body: T) => unknown) =>
  changed((call) => (m, body, o) => call(m, m === method ? change(body as T) : body, o))
const hears = (method: ChannelMethod, change: (answer: Heard, body: unknown) => unknown) =>
  changed((call) => async (m, body, o) => {
    const answer = await call(m, body, o)
    return m === method ? change(answer as Heard, body) : answer
  })
interface Heard {
  readonly status: string
  readonly amountMinor: number
  readonly currency: string
}

/** The channel knows payments under numbers of the adapter's own; `fresh` says when it takes another. */
const renumbered = (fresh: (before: PaymentRequest | undefined, now: PaymentRequest) => boolean) =>
  changed((call) => {
    const known = new Map<string, { readonly own: string; readonly request: PaymentRequest }>()
    return (method, body, o) => {
      if (method === 'query' || method === 'close')
        return call(method, known.get(body as string)?.own ?? body, o)
      if (method !== 'create') return call(method, body, o)
      const request = body as PaymentRequest
      const before = known.get(request.paymentId)
      if (!before || fresh(before.request, request))
        known.set(request.paymentId, { own: newOrderNo(), request })
      return call(method, { ...request, paymentId: known.get(request.paymentId)?.own }, o)
    }
  })

const believes = (answer: unknown) =>
  changed(
    (call) =>
      (...args) =>
        call(...args).catch(() => answer),
  )

/** A way to be wrong, and words of the cases that must notice. */
const MUTANTS: readonly (readonly [string, Changed, readonly string[]])[] = [
  ['a second payment for each create', renumbered(() => true), ['four times at once']],
  [
    'a second payment for another amount',
    renumbered((before, now) => before?.amountMinor !== now.amountMinor),
    ['another amount under a number'],
  ],
  [
    'a query that throws for what is unknown',
    hears('query', (a) => {
      if (a.status === 'none') throw new Error('not found')
      return a
    }),
    ['unknown, which is an answer'],
  ],
  [
    'a query that says open once it is paid',
    hears('query', (a) => (a.status === 'paid' ? { status: 'open', cashier: {} } : a)),
    ['open until the buyer pays'],
  ],
  [
    'amounts by way of floats',
    sends<PaymentRequest>('create', (r) => ({
      ...r,
      amountMinor: Math.floor((r.amountMinor / 100) * 100),
    })),
    ['C24: amounts are whole minor units'],
  ],
  [
    'yen in hundredths',
    hears('query', (a) => (a.currency === 'JPY' ? { ...a, amountMinor: a.amountMinor * 100 } : a)),
    ['C24: amounts are whole minor units', 'callback is verified'],
  ],
  [
    'a currency that is passed over',
    sends<PaymentRequest>('create', (r) => ({ ...r, currency: 'CNY' })),
    ['a currency that the channel does not take', 'C24: amounts are whole minor units'],
  ],
  [
    'a refusal that is thrown',
    hears('create', (a) => {
      if (a.status === 'refused') throw new Error('refused')
      return a
    }),
    ['a currency that the channel does not take'],
  ],
  [
    'a close that only says so',
    changed((call) => (m, body, o) => {
      return m === 'close' ? Promise.resolve({ status: 'closed' }) : call(m, body, o)
    }),
    ['nobody can pay a payment that was closed', 'says that it is paid', 'close whose answer'],
  ],
  [
    'one trade number for all',
    hears('query', (a) => (a.status === 'paid' ? { ...a, tradeNo: 't1' } : a)),
    ['tell payments apart'],
  ],
  [
    'another trade number each time',
    hears('query', (a) => (a.status === 'paid' ? { ...a, tradeNo: newOrderNo() } : a)),
    ['open until the buyer pays', 'callback is verified'],
  ],
  [
    'a refund id of its own for each call',
    sends<RefundRequest>('refund', (r) => ({ ...r, refundId: newOrderNo() })),
    ['C25: the same refund, one after', 'C25: a refund nobody asked for', 'refund whose answer'],
  ],
  [
    'a refund id with the amount in it',
    sends<RefundRequest>('refund', (r) => ({ ...r, refundId: `${r.refundId}-${r.amountMinor}` })),
    ['the same refund for another amount'],
  ],
  [
    'a refusal taken for a refund',
    hears('refund', () => ({ status: 'refunded' })),
    ['no more goes back than came in', 'money that never came'],
  ],
  [
    'refunds in whole yuan',
    sends<RefundRequest>('refund', (r) => ({
      ...r,
      amountMinor: Math.ceil(r.amountMinor / 100) * 100,
    })),
    ['refunds are whole minor units too'],
  ],
  [
    'a refund that is always there',
    hears('queryRefund', () => ({ status: 'refunded' })),
    ['C25: a refund nobody asked for', 'unreached'],
  ],
  [
    'no answer taken for refused',
    believes({ status: 'refused', reason: 'timeout' }),
    ['unreached'],
  ],
  ['no answer taken for closed', believes({ status: 'closed' }), ['close whose answer is lost']],
  ['no answer taken for none', believes({ status: 'none' }), ['unreached', 'server-error']],
  [
    'a 503 read as if it were an answer',
    {
      provider: (url) =>
        new (class extends HttpPayments {
          protected override async call<T>(method: ChannelMethod, body: unknown, o: ChannelCall) {
            const init = { method: 'POST', body: JSON.stringify(body), signal: o.signal }
            return (await (await fetch(`${url}/${method}`, init)).json()) as T
          }
        })(url),
    },
    ['server-error'],
  ],
  [
    'a create that is tried again under another number',
    changed((call) => async (m, body, o) => {
      if (m !== 'create') return call(m, body, o)
      const again = { ...(body as PaymentRequest), paymentId: newOrderNo() }
      return call(m, body, o).catch(() => call(m, again, o))
    }),
    ['create whose answer is lost'],
  ],
  [
    'a refund that is tried again under another id',
    changed((call) => async (m, body, o) => {
      if (m !== 'refund') return call(m, body, o)
      const again = { ...(body as RefundRequest), refundId: newOrderNo() }
      return call(m, body, o).catch(() => call(m, again, o))
    }),
    ['refund whose answer is lost'],
  ],
  [
    'calls that do not end with their signal',
    changed((call) => (m, body) => call(m, body, { signal: new AbortController().signal })),
    ['ends with its signal'],
  ],
  [
    'callbacks that nobody checks',
    { read: (raw) => ({ ...JSON.parse(raw.body), channel: 'http', verified: true }) },
    [
      'no change to a callback',
      'without the channel’s signature',
      'what is no callback',
      'no signature of another',
    ],
  ],
  [
    'a signature checked only where there is one',
    {
      read: (raw) => {
        const { 'x-channel-signature': signature } = raw.headers
        return { ...readCallback(raw), ...(signature ? {} : { verified: true }) }
      },
    },
    ['without the channel’s signature', 'what is no callback'],
  ],
  [
    'yuan in the callback',
    { read: (raw) => ({ ...readCallback(raw), amountMinor: readCallback(raw).amountMinor / 100 }) },
    ['callback is verified'],
  ],
  [
    'a trade number made up by the reader',
    {
      read: (raw) => {
        const notice = readCallback(raw)
        return { ...notice, tradeNo: `${notice.paymentId}-${newOrderNo()}` }
      },
    },
    ['comes again says the same again'],
  ],
]

const SUITE = paymentProviderSuite([
  'unreached',
  'server-error',
  'lost-answer',
  'silent',
  'callbacks',
])

test.each(MUTANTS)('the suite notices %s', async (_, mutant, words) => {
  const make = async () => ({ ...(await httpChannelUnderTest(mutant)), patienceMs: 1_000 })
  for (const word of words) {
    const named = SUITE.filter(({ name }) => name.includes(word))
    expect(named, word).not.toEqual([])
    for (const { name, run } of named) await expect(run(make), name).rejects.toThrow()
  }
})

test('every case of the suite is seen to fail', () => {
  const words = MUTANTS.flatMap(([, , its]) => its)
  const unseen = SUITE.filter(({ name }) => !words.some((word) => name.includes(word)))
  expect(unseen.map(({ name }) => name)).toEqual([])
})
