import type { ChannelCall, PaymentProvider } from 'flash-sale-kit'
import { LOOPBACK } from '../harness/net.js'

export const CHANNELS = ['ali', 'wx'] as const
export type Channel = (typeof CHANNELS)[number]

/** A channel in another process (`channels.ts`): whatever is no answer is thrown, as the port wants it. */
export function channelAt(port: number, channel: string): PaymentProvider {
  const call =
    <T>(name: string) =>
    async (what: unknown, { signal }: ChannelCall): Promise<T> => {
      const answer = await fetch(`http://${LOOPBACK}:${port}/${channel}/${name}`, {
        method: 'POST',
        body: JSON.stringify(what),
        signal,
      })
      if (!answer.ok) throw new Error(`${channel} answered ${answer.status} to ${name}`)
      return (await answer.json()) as T
    }
  return {
    channel,
    create: call('create'),
    query: call('query'),
    close: call('close'),
    refund: call('refund'),
    queryRefund: call('queryRefund'),
  }
}
