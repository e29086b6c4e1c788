/** Paying for orders: the page asks for a payment, the channel calls back. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import express, { type Request } from 'express'
import { type PaymentNotice, Payments, type PaymentsOptions } from 'flash-sale-kit'
import { SandboxPayments } from 'flash-sale-kit/testing'

/** STAND-IN. A real shop has a `PaymentProvider` here that calls its channel. */
const CHANNEL = 'sandbox'

export function openPayments(o: Omit<PaymentsOptions, 'providers'>): Payments {
  return new Payments({ ...o, providers: [new SandboxPayments({ channel: CHANNEL })] })
}

export interface PaymentRoutesOptions {
  readonly signedInUser: (req: Request) => { readonly userId: string } | null
  /** What the channel signs its callbacks with. */
  readonly channelKey: string
}

/**
 * - `POST /orders/:orderNo`: what the buyer's page needs to pay it
 * - `POST /callback`: for the channel, which repeats it until it hears 200
 */
export function paymentRoutes(payments: Payments, o: PaymentRoutesOptions): express.Router {
  const routes = express.Router()

  routes.post('/orders/:orderNo', async (req, res) => {
    const buyer = o.signedInUser(req)
    if (!buyer) return void res.status(401).json({ status: 'not-signed-in' })
    const { orderNo } = req.params
    const made = await payments.create({ orderNo, userId: buyer.userId, channel: CHANNEL })
    res.status(made.status === 'created' ? 201 : 409).json(made)
  })

  routes.post('/callback', express.text({ type: '*/*', limit: '4kb' }), async (req, res) => {
    const text = typeof req.body === 'string' ? req.body : ''
    const verified = isSigned(text, req.get('x-channel-signature') ?? '', o.channelKey)
    const notice: PaymentNotice = { ...JSON.parse(text), channel: CHANNEL, verified }
    const { acknowledge } = await payments.notice(notice)
    res.status(acknowledge ? 200 : 503).json({ acknowledge })
  })

  return routes
}

function isSigned(text: string, signature: string, key: string): boolean {
  const right = createHmac('sha256', key).update(text).digest()
  const given = Buffer.from(signature, 'base64url')
  return given.length === right.length && timingSafeEqual(given, right)
}
