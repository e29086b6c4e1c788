/**
 * Refunds one payment in a process of its own, and kills itself at the point that DIE names: `decided` (the row is there, the
 * channel has not been called) or `made` (the channel has paid, its answer is not recorded). The channel is the parent's,
 * over HTTP.
 */
import { type PaymentProvider, Payments, type RefundRequest } from 'flash-sale-kit'
import { KnexOrderBook, KnexPaymentBook } from 'flash-sale-kit/knex'
import { type DatabaseAddress, openDatabase } from '../../harness/databases.js'

const {
  DATABASE = '',
  CHANNEL = '',
  PAYMENT = '',
  REFUND = '',
  AMOUNT = '',
  DIE = '',
} = process.env

function reached(point: string): void {
  if (point === DIE) process.kill(process.pid, 'SIGKILL')
}

async function ask(call: string, body: unknown) {
  const answer = await fetch(`${CHANNEL}/${call}`, { method: 'POST', body: JSON.stringify(body) })
  return (await answer.json()) as never
}

const provider: PaymentProvider = {
  channel: 'wx',
  create: (request) => ask('create', request),
  query: (paymentId) => ask('query', paymentId),
  close: (paymentId) => ask('close', paymentId),
  async refund(request: RefundRequest) {
    reached('decided')
    const answer = await ask('refund', request)
    reached('made')
    return answer
  },
  queryRefund: (request) => ask('queryRefund', request),
}
const knex = openDatabase(JSON.parse(DATABASE) as DatabaseAddress)
const payments = new Payments({
  book: new KnexPaymentBook({ knex }),
  orders: new KnexOrderBook({ knex }),
  providers: [provider],
})
const answer = await payments.refund({
  paymentId: PAYMENT,
  refundId: REFUND,
  amountMinor: Number(AMOUNT),
  reason: 'asked for',
})
console.log(`refund ${answer.status}`)
await knex.destroy()
