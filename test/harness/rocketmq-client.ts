import type { Producer } from 'rocketmq-client-nodejs'

/**
 * Keeps a client of rocketmq-client-nodejs 1.0.8 from ending the process when its broker dies; to be called before
 * `startup()`. The client takes its listeners off a stream whose broker has gone, and gRPC then reports the loss on that
 * stream: an `error` event that nobody listens to, which Node makes an uncaught exception. Seen in one of two runs that
 * kill a broker.
 */
export function survivesBrokers<
  C extends { createTelemetryStream: Producer['createTelemetryStream'] },
>(client: C): C {
  const create = client.createTelemetryStream.bind(client)
  client.createTelemetryStream = (endpoints) => {
    const stream = create(endpoints)
    const emit = stream.emit.bind(stream)
    stream.emit = (event: string | symbol, ...args: unknown[]) =>
      event === 'error' && stream.listenerCount('error') === 0 ? false : emit(event, ...args)
    return stream
  }
  return client
}
