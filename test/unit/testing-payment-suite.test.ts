import { paymentProviderSuite, SandboxPayments } from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'
import { httpChannelUnderTest } from './testing-payment-channel.js'

describe('an adapter over HTTP', () => {
  const suite = paymentProviderSuite([
    'unreached',
    'server-error',
    'lost-answer',
    'silent',
    'callbacks',
  ])
  for (const { name, run } of suite) test(name, () => run(() => httpChannelUnderTest()))
})

describe('SandboxPayments', () => {
  const suite = paymentProviderSuite(['unreached', 'lost-answer', 'silent'])
  const make = async () => {
    const wx = new SandboxPayments({ channel: 'wx', currencies: ['CNY', 'JPY'] })
    return {
      provider: wx,
      currencies: ['CNY', 'JPY'],
      patienceMs: 5_000,
      pay: async (paymentId: string) => wx.pay(paymentId) !== null,
      fail: (method: 'create', fault: 'unreached') => wx.fail(method, fault),
      close: async () => {},
    }
  }
  for (const { name, run } of suite) test(name, () => run(make))
})
