import { deepEqual, equal, fail } from 'node:assert/strict'
import type { PaymentNotice } from '../../core/payment.js'
import type { PaymentProviderCheck, RawCallback } from '../payment-provider-suite.js'
import type { Bought, PaymentBench } from './bench.js'

/** What the host makes of a callback; null when he does not read it at all. */
async function read(bench: PaymentBench, raw: RawCallback): Promise<PaymentNotice | null> {
  try {
    return (await bench.under.read?.(raw)) ?? null
  } catch {
    return null
  }
}

async function genuine(bench: PaymentBench, { request, paid }: Bought) {
  const raw = (await bench.under.callbackOf?.(request.paymentId)) ?? fail('no callbackOf')
  const notice = (await read(bench, raw)) ?? fail('the channel’s own callback is not read')
  equal(notice.verified, true, 'the channel’s own callback is verified')
  const { channel } = bench.provider
  const { paymentId } = request
  const { tradeNo, amountMinor, currency } = paid
  const said = { channel, paymentId, tradeNo, amountMinor, currency }
  deepEqual(moneyOf(notice), said, 'it says what the query says')
  return { raw, notice }
}

function moneyOf({ channel, paymentId, tradeNo, amountMinor, currency }: PaymentNotice) {
  return { channel, paymentId, tradeNo, amountMinor, currency }
}

/** The text with each of its digits and letters changed in turn, at most 400 of them. */
function* altered(text: string): Generator<string> {
  const at = [...text.matchAll(/[0-9a-zA-Z]/g)].map((match) => match.index)
  const step = Math.ceil(at.length / 400)
  for (let i = 0; i < at.length; i += step) {
    const place = at[i] as number
    const char = text[place] as string
    const other = /[0-9]/.test(char) ? String((Number(char) + 1) % 10) : char === 'x' ? 'y' : 'x'
    yield text.slice(0, place) + other + text.slice(place + 1)
  }
}

/** A changed callback may still be good where the change means nothing; then it says what it said before. */
async function believedOnly(
  bench: PaymentBench,
  raw: RawCallback,
  truth: PaymentNotice,
): Promise<void> {
  const notice = await read(bench, raw)
  if (notice?.verified === true)
    deepEqual(notice, truth, 'a callback with another content is taken for the channel’s')
}

export const callbacks: readonly PaymentProviderCheck[] = [
  {
    name: 'P1: the channel’s callback is verified, and says what the channel says when asked',
    needs: ['callbacks'],
    async check(bench) {
      for (const currency of bench.under.currencies)
        for (const amountMinor of [1, 1_999, 9_900])
          await genuine(bench, await bench.bought({ currency, amountMinor }))
    },
  },
  {
    name: 'P1: a callback that comes again says the same again, so that its trade number tells it',
    needs: ['callbacks'],
    async check(bench) {
      const bought = await bench.bought()
      const { raw, notice } = await genuine(bench, bought)
      for (let i = 0; i < 3; i++) deepEqual(await read(bench, raw), notice)
      const later = await genuine(bench, bought)
      deepEqual(moneyOf(later.notice), moneyOf(notice), 'also when the channel sends it anew')
    },
  },
  {
    name: 'P1: no change to a callback’s body is taken for the channel’s word',
    needs: ['callbacks'],
    async check(bench) {
      const { raw, notice } = await genuine(bench, await bench.bought())
      for (const body of altered(raw.body)) await believedOnly(bench, { ...raw, body }, notice)
      for (const body of [raw.body.slice(0, -1), `${raw.body}x`, `${raw.body}${raw.body}`])
        await believedOnly(bench, { ...raw, body }, notice)
    },
  },
  {
    name: 'P1: one callback’s signature is no signature of another',
    needs: ['callbacks'],
    async check(bench) {
      const one = await genuine(bench, await bench.bought({ amountMinor: 9_900 }))
      const other = await genuine(bench, await bench.bought({ amountMinor: 1 }))
      const mixed = { body: one.raw.body, headers: other.raw.headers }
      await believedOnly(bench, mixed, one.notice)
      // Where the signature is in the body, what is mixed has the right one.
      if (bench.under.unsigned?.(one.raw).body !== one.raw.body) return
      equal((await read(bench, mixed))?.verified ?? false, false)
    },
  },
  {
    name: 'P1: a callback without the channel’s signature is not verified',
    needs: ['callbacks'],
    async check(bench) {
      const { raw } = await genuine(bench, await bench.bought())
      const bare = bench.under.unsigned?.(raw) ?? fail('no unsigned')
      equal((await read(bench, bare))?.verified ?? false, false)
    },
  },
  {
    name: 'P1: what is no callback is not verified',
    needs: ['callbacks'],
    async check(bench) {
      const { raw } = await genuine(bench, await bench.bought())
      const odd = ['', '{', '[]', 'null', '{}', '"verified"', '{"verified":true}', 'a=b&verified=1']
      for (const body of [...odd, '\0', '9'.repeat(70_000)])
        for (const headers of [raw.headers, {}]) {
          const notice = await read(bench, { headers, body })
          equal(
            notice?.verified ?? false,
            false,
            `${JSON.stringify(body.slice(0, 20))} is verified`,
          )
        }
    },
  },
]
