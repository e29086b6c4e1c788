import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts, LOOPBACK } from '../net.js'
import { properties } from './properties.js'

const CLUSTER = 'DefaultCluster'
/** Its name, and that of a topic every broker has. */
export const BROKER = 'broker-a'

export interface RocketmqPorts {
  readonly nameServer: number
  /** The broker also listens two ports below, which cannot be configured. */
  readonly broker: number
  readonly ha: number
  readonly grpc: number
  readonly remoting: number
  readonly metrics: number
}

export async function rocketmqPorts(): Promise<RocketmqPorts> {
  const first = await freePorts(7)
  return {
    ...{ broker: first + 2, ha: first + 1, nameServer: first + 3, grpc: first + 4 },
    ...{ remoting: first + 5, metrics: first + 6 },
  }
}

/** Writes the three files and returns their paths; `tls` is the folder with the proxy's certificate and key. */
export function writeRocketmqConfig(
  folder: string,
  tls: string,
  at: RocketmqPorts,
  more: {
    readonly config?: Readonly<Record<string, string>>
    readonly proxy?: Readonly<Record<string, string | number | boolean>>
  } = {},
) {
  const nameServers = `${LOOPBACK}:${at.nameServer}`
  const files = {
    nameServer: join(folder, 'namesrv.conf'),
    broker: join(folder, 'broker.conf'),
    proxy: join(folder, 'rmq-proxy.json'),
  }
  const nameServer = { listenPort: String(at.nameServer), bindAddress: LOOPBACK }
  const broker = {
    ...{ brokerClusterName: CLUSTER, brokerName: BROKER, brokerId: '0' },
    ...{ namesrvAddr: nameServers, brokerIP1: LOOPBACK, brokerIP2: LOOPBACK },
    ...{ bindAddress: LOOPBACK, listenPort: String(at.broker), haListenPort: String(at.ha) },
    ...{ brokerRole: 'ASYNC_MASTER', flushDiskType: 'ASYNC_FLUSH' },
    ...{
      storePathRootDir: join(folder, 'data'),
      storePathCommitLog: join(folder, 'data/commitlog'),
    },
    // The files that are reserved at the start; their default sizes are for a disk of terabytes.
    ...{ mappedFileSizeCommitLog: '67108864', mappedFileSizeConsumeQueue: '300000' },
    ...{ maxIndexNum: '200000', maxHashSlotNum: '50000', diskMaxUsedSpaceRatio: '95' },
    autoCreateTopicEnable: 'false',
    ...{ metricsExporterType: 'PROM', metricsPromExporterHost: LOOPBACK },
    metricsPromExporterPort: String(at.metrics),
    recallMessageEnable: 'true',
    timerFlushIntervalMs: '60000', // each second of it would cost a quarter of a core, also where nothing happens
    // A transaction left open is asked about after seconds instead of a minute.
    ...{ transactionTimeOut: '6000', transactionCheckInterval: '5000' },
  }
  const proxy = {
    ...{ rocketMQClusterName: CLUSTER, proxyMode: 'local', namesrvAddr: nameServers },
    ...{ localServeAddr: LOOPBACK, grpcServerPort: at.grpc, remotingListenPort: at.remoting },
    // How long a client that asked a moment too early goes on being told that there is no such topic: 20 s by default.
    topicRouteServiceCacheRefreshSeconds: 1,
    // A certificate made by the proxy itself costs seconds at each start.
    ...{ tlsTestModeEnable: false, tlsKeyPath: join(tls, 'key.pem') },
    tlsCertPath: join(tls, 'cert.pem'),
  }
  mkdirSync(join(folder, 'data'))
  writeFileSync(files.nameServer, properties(nameServer))
  writeFileSync(files.broker, properties({ ...broker, ...more.config }))
  writeFileSync(files.proxy, JSON.stringify({ ...proxy, ...more.proxy }))
  return files
}
