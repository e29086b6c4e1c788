import { join } from 'node:path'
import { artifact, artifactPath, isMade } from '../artifacts.js'
import { need } from '../binaries.js'
import { accepts, LOOPBACK, until } from '../net.js'
import { removeScratch, scratchFolder } from '../scratch.js'
import { jvmArgs } from './jvm.js'
import { hasRoute, putGroup, putTopic, registerNow, type TopicType } from './rocketmq-admin.js'
import {
  BROKER,
  type RocketmqPorts,
  rocketmqPorts,
  writeRocketmqConfig,
} from './rocketmq-config.js'
import { runServer, type Server } from './server.js'

export interface RocketmqServer extends Server {
  /** What a client is given: `127.0.0.1:<port>`, where the proxy speaks gRPC, with TLS and without. */
  readonly endpoints: string
  /** Of the broker, in Prometheus text; `rocketmq_consumer_lag_messages` is the lag by group and topic. */
  readonly metricsUrl: string
  /** Takes milliseconds. The proxy refuses messages of another type; `queues` is 4 unless told otherwise. */
  createTopic(
    name: string,
    o?: { readonly type?: TopicType; readonly queues?: number },
  ): Promise<void>
  /**
   * Takes milliseconds; comes before the consumer, which otherwise hangs for ever while it starts up. A message is tried
   * again `retries` times (16) before it goes to the dead letters; in a `fifo` group those behind it wait.
   */
  createGroup(
    name: string,
    o?: { readonly retries?: number; readonly fifo?: boolean },
  ): Promise<void>
}

/**
 * RocketMQ 5 as two processes: a name server, and a proxy with the broker inside; up in 3–4 s on two quiet cores, 0.4 GB.
 * Topics are only what `createTopic` made. `pid`, `kill` and `restart` mean the proxy with its broker; the name server
 * stays. What was acknowledged is there after kill -9 (the system has it, if not the disk).
 *
 * `config` takes the words of broker.conf, `proxy` those of rmq-proxy.json.
 */
export async function startRocketmq(
  o: {
    readonly config?: Readonly<Record<string, string>>
    readonly proxy?: Readonly<Record<string, string | number | boolean>>
  } = {},
): Promise<RocketmqServer> {
  const made = artifact('rocketmq')
  const folder = scratchFolder('rocketmq')
  const ports = await rocketmqPorts()
  const files = writeRocketmqConfig(folder, join(made, 'tls'), ports, o)
  const common = {
    command: need('java'),
    env: environment(folder, ports),
    startWithinMs: 60_000,
    // SIGTERM takes 18–30 s, most of it waiting; killed after 2 s it recovers just as well.
    endWithinMs: 2_000,
  }
  const args = (heapMb: number, main: readonly string[]) => [
    ...jvmArgs({ jars: join(made, 'lib'), heapMb, flags: flags(folder) }),
    ...main,
  ]
  const nameServer = await runServer({
    ...common,
    name: 'rocketmq name server',
    port: ports.nameServer,
    args: () => args(256, ['org.apache.rocketmq.namesrv.NamesrvStartup', '-c', files.nameServer]),
    ready: accepts,
    cleanUp: () => {},
  })
  try {
    const proxy = await runServer({
      ...common,
      name: 'rocketmq proxy with broker',
      port: ports.grpc,
      args: () =>
        args(1_024, [
          ...['org.apache.rocketmq.proxy.ProxyStartup', '-pm', 'local'],
          ...['-bc', files.broker, '-pc', files.proxy],
        ]),
      ready: async (port, output) => {
        if (!output().includes('rocketmq-proxy startup successfully')) return false
        return (await accepts(port)) && (await isRegistered(ports))
      },
      cleanUp: () => {},
    })
    return assemble(proxy, nameServer, ports, () => removeScratch(folder))
  } catch (error) {
    await nameServer.stop()
    throw error
  }
}

function assemble(
  proxy: Server,
  nameServer: Server,
  ports: RocketmqPorts,
  cleanUp: () => void,
): RocketmqServer {
  let stopped: Promise<void> | undefined
  const end = async () => {
    // Its data goes too, so nothing is gained by a good end.
    await Promise.all([proxy.kill('SIGKILL'), nameServer.kill('SIGKILL')])
    await Promise.all([proxy.stop(), nameServer.stop()])
    cleanUp()
  }
  return {
    host: LOOPBACK,
    port: ports.grpc,
    endpoints: `${LOOPBACK}:${ports.grpc}`,
    metricsUrl: `http://${LOOPBACK}:${ports.metrics}/metrics`,
    get pid() {
      return proxy.pid
    },
    isAlive: proxy.isAlive,
    kill: proxy.kill,
    restart: proxy.restart,
    stop() {
      stopped ??= end()
      return stopped
    },
    async createTopic(name, { type = 'NORMAL', queues = 4 } = {}) {
      await putTopic(ports.broker, name, { type, queues })
      await until(`clients find topic ${name}`, () => hasRoute(ports.nameServer, name))
    },
    createGroup: (name, { retries = 16, fifo = false } = {}) =>
      putGroup(ports.broker, name, { retries, fifo }),
  }
}

/**
 * A broker that starts before its connection to the name server is made does not register, says that it is up and tries
 * again after ten seconds (one start in three on a busy machine). Here it is told to do so now.
 */
async function isRegistered(ports: RocketmqPorts): Promise<boolean> {
  try {
    return await hasRoute(ports.nameServer, BROKER)
  } catch {
    await registerNow(ports.broker)
    return false
  }
}

function flags(folder: string): string[] {
  return [
    '-XX:MaxDirectMemorySize=512m',
    '-Dtls.server.mode=disabled', // of the remoting protocol, which here only this harness speaks; saves 2 s
    ...[`-Drocketmq.log.root=${join(folder, 'log')}`, `-Duser.home=${folder}`],
    '--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED',
    ...['--add-opens=java.base/java.nio=ALL-UNNAMED'],
    '--add-opens=java.base/sun.nio.ch=ALL-UNNAMED',
  ]
}

let warned = false

function environment(folder: string, ports: RocketmqPorts): NodeJS.ProcessEnv {
  const env = {
    ...process.env,
    ...{ ROCKETMQ_HOME: folder, RMQ_PROXY_HOME: folder },
    NAMESRV_ADDR: `${LOOPBACK}:${ports.nameServer}`,
  }
  if (isMade('loopback')) return { ...env, LD_PRELOAD: join(artifactPath('loopback'), 'bind.so') }
  if (!warned) console.warn('no C compiler was found: RocketMQ listens on every address')
  warned = true
  return env
}
