import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { find, need } from '../../test/harness/binaries.js'
import { jvmArgs } from '../../test/harness/services/jvm.js'
import { kafkaConfig } from '../../test/harness/services/kafka.js'
import { properties } from '../../test/harness/services/properties.js'
import { make } from './make.js'
import { fetchJars } from './maven.js'
import { run } from './run.js'

const LOOPBACK_SOURCE = fileURLToPath(
  new URL('../../test/harness/services/loopback.c', import.meta.url),
)

export function makeBrokers(): void {
  const cc = find('cc')
  if (cc)
    make('loopback', 'compiling the loopback shim', (folder) => {
      const target = join(folder, 'bind.so')
      run(cc, ['-shared', '-fPIC', '-O2', '-o', target, LOOPBACK_SOURCE, '-ldl'])
    })
  make('rocketmq', 'fetching RocketMQ 5.5.0 with Maven, 102 MB', (folder) => {
    fetchJars(folder, [
      'org.apache.rocketmq:rocketmq-namesrv:5.5.0',
      'org.apache.rocketmq:rocketmq-proxy:5.5.0',
    ])
    makeCertificate(join(folder, 'tls'))
  })
  make('kafka', 'fetching Kafka 4.1.1 with Maven, 43 MB', (folder) => {
    fetchJars(folder, [
      'org.apache.kafka:kafka_2.13:4.1.1',
      'org.apache.logging.log4j:log4j-slf4j-impl:2.24.3',
    ])
    formatKafka(folder)
  })
}

/** For the proxy, which takes seconds to make one at each start. */
function makeCertificate(folder: string): void {
  mkdirSync(folder)
  run(need('openssl'), [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '3650', '-subj', '/CN=localhost'],
    ...['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')],
  ])
}

/** An empty storage, copied at each start: it holds neither ports nor paths, and formatting takes a JVM 1.5 s. */
function formatKafka(folder: string): void {
  const settings = join(folder, 'format.properties')
  writeFileSync(settings, properties(kafkaConfig(join(folder, 'formatted'), 1, 2)))
  run(need('java'), [
    ...jvmArgs({ jars: join(folder, 'lib'), heapMb: 256 }),
    ...['kafka.tools.StorageTool', 'format', '-t', 'MkU3OEVBNTcwNTJENDM2Qk', '-c', settings],
  ])
}
