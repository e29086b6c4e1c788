import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { ManagedClient } from '../../src/rocketmq/managed-client.js'
import type { TelemetryStream } from '../../src/rocketmq/sdk.js'

class FakeStream extends EventEmitter implements TelemetryStream {
  cancelled = 0
  write() {}
  end() {}
  cancel() {
    this.cancelled++
  }
}

/** As rocketmq-client-nodejs 1.0.8 behaves when things go wrong. */
class FakeClient {
  readonly streams: FakeStream[] = []
  closed = 0
  shutdowns = 0
  private fail: (error: Error) => void = () => {}
  readonly rpcClientManager = { close: () => void this.closed++ }
  constructor(private readonly ending: () => Promise<void> = async () => {}) {}

  startup(): Promise<void> {
    this.createTelemetryStream()
    return new Promise((_, reject) => {
      this.fail = reject
    })
  }
  shutdown(): Promise<void> {
    this.shutdowns++
    return this.ending()
  }
  createTelemetryStream(): TelemetryStream {
    const stream = new FakeStream()
    this.streams.push(stream)
    return stream
  }
  onUnknownCommand() {
    this.fail(new Error('failed from outside'))
  }
  onSettingsCommand() {}
  async getRouteData() {
    return { messageQueues: [] }
  }
}

const manage = (client: FakeClient, errors: unknown[] = []) =>
  new ManagedClient(client, (error) => errors.push(error))

describe('ManagedClient', () => {
  it('gives up a startup that never settles, and fails it so that it can be cleared away', async () => {
    const client = new FakeClient()
    const managed = manage(client)
    await expect(managed.start(50, () => 'nobody answered')).rejects.toMatchObject({
      code: 'QUEUE_UNAVAILABLE',
      message: 'nobody answered',
    })
    await managed.close(0)
    await new Promise((resolve) => setTimeout(resolve, 250))
    expect(client.shutdowns).toBe(2) // now, and once the startup had ended
    expect(client.streams[0]?.cancelled).toBe(1)
  })

  it('does not wait for a broker that refuses the client', async () => {
    const client = new FakeClient()
    const starting = manage(client).start(60_000, () => 'late')
    client.streams[0]?.emit('error', Object.assign(new Error('group not found'), { code: 3 }))
    await expect(starting).rejects.toThrow('group not found')
  })

  it('lets no error of a stream without listeners end the process, and hides none from listeners', () => {
    const client = new FakeClient()
    manage(client)
    const stream = client.createTelemetryStream()
    stream.emit('error', new Error('nobody listens'))
    const heard: unknown[] = []
    stream.once('error', (error) => heard.push(error))
    stream.emit('error', new Error('somebody does'))
    expect(heard).toHaveLength(1)
  })

  it.each([
    ['hangs', () => new Promise<void>(() => {})],
    ['rejects', () => Promise.reject(new Error('the broker is gone'))],
  ])('closes what a shutdown that %s leaves open, and opens no stream again', async (_, ending) => {
    const client = new FakeClient(ending)
    const errors: unknown[] = []
    const managed = manage(client, errors)
    client.createTelemetryStream()
    const begun = performance.now()
    await managed.close(50)
    expect(performance.now() - begun).toBeLessThan(1_000)
    expect(client.closed).toBeGreaterThan(0)
    expect(client.streams.map((s) => s.cancelled)).toEqual([1])
    const renewed = client.createTelemetryStream()
    renewed.write(undefined)
    expect(client.streams).toHaveLength(1)
  })
})
