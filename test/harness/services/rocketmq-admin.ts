import { connect } from 'node:net'
import { LOOPBACK } from '../net.js'

/**
 * The few requests to a broker or name server that RocketMQ's `mqadmin` would send, which takes 7 s a call to start its
 * JVM. A frame is its length, the length of its header, a JSON header and a body. The numbers are those of Java's
 * `RequestCode` and `ResponseCode`.
 */
const UPDATE_AND_CREATE_TOPIC = 17
const UPDATE_BROKER_CONFIG = 25
const UPDATE_AND_CREATE_SUBSCRIPTION_GROUP = 200
const GET_ROUTEINFO_BY_TOPIC = 105
const SUCCESS = 0
const TIMEOUT_MS = 5_000

/** What a topic is for; the proxy refuses a message of another kind. */
export type TopicType = 'NORMAL' | 'FIFO' | 'DELAY' | 'TRANSACTION'

export async function putTopic(
  brokerPort: number,
  topic: string,
  o: { readonly type: TopicType; readonly queues: number },
): Promise<void> {
  await request(brokerPort, UPDATE_AND_CREATE_TOPIC, {
    ...{ topic, defaultTopic: 'TBW102', topicFilterType: 'SINGLE_TAG', topicSysFlag: '0' },
    ...{ readQueueNums: String(o.queues), writeQueueNums: String(o.queues), perm: '6' },
    ...{ order: 'false', attributes: `+message.type=${o.type}` },
  })
}

/**
 * In a FIFO group a message that fails is tried again before the next is delivered, which takes the exponential policy:
 * under the default one it goes to the dead letters at the first failure.
 */
export async function putGroup(
  brokerPort: number,
  groupName: string,
  o: { readonly fifo: boolean; readonly retries: number },
): Promise<void> {
  const policy = {
    type: 'EXPONENTIAL',
    exponentialRetryPolicy: { initial: 1_000, max: 10_000, multiplier: 2 },
  }
  const group = {
    ...{ groupName, brokerId: 0, whichBrokerWhenConsumeSlowly: 1, consumeTimeoutMinute: 15 },
    ...{ consumeEnable: true, consumeFromMinEnable: true, consumeBroadcastEnable: true },
    ...{ notifyConsumerIdsChangedEnable: true, groupSysFlag: 0 },
    ...{ consumeMessageOrderly: o.fifo, retryQueueNums: 1, retryMaxTimes: o.retries },
    ...(o.fifo ? { groupRetryPolicy: policy } : {}),
  }
  await request(brokerPort, UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, JSON.stringify(group))
}

/** Has a broker send its topics to the name server, which it does when its permission is set, if only to what it was. */
export async function registerNow(brokerPort: number): Promise<void> {
  await request(brokerPort, UPDATE_BROKER_CONFIG, {}, 'brokerPermission=6')
}

/** True when clients will be told where the topic is. */
export async function hasRoute(nameServerPort: number, topic: string): Promise<boolean> {
  await request(nameServerPort, GET_ROUTEINFO_BY_TOPIC, { topic })
  return true
}

async function request(
  port: number,
  code: number,
  extFields: Readonly<Record<string, string>>,
  body = '',
): Promise<void> {
  const header = { code, language: 'JAVA', version: 0, opaque: 1, flag: 0, extFields }
  const reply = await exchange(port, frame({ ...header, serializeTypeCurrentRPC: 'JSON' }, body))
  if (reply.code !== SUCCESS)
    throw new Error(`request ${code} was answered with ${reply.code}: ${reply.remark}`)
}

function frame(header: object, body: string): Buffer {
  const text = Buffer.from(JSON.stringify(header))
  const content = Buffer.from(body)
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(4 + text.length + content.length, 0)
  lengths.writeUInt32BE(text.length, 4) // the topmost byte, 0, says that the header is JSON
  return Buffer.concat([lengths, text, content])
}

interface Reply {
  readonly code: number
  readonly remark?: string
}

function exchange(port: number, bytes: Buffer): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0)
    const socket = connect(port, LOOPBACK)
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no reply from port ${port}`)))
    socket.once('error', reject)
    socket.once('close', () => reject(new Error(`port ${port} closed before it replied`)))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (received.length < 8 || received.length < 4 + received.readUInt32BE(0)) return
      const headerLength = received.readUInt32BE(4) & 0xff_ff_ff
      resolve(JSON.parse(received.toString('utf8', 8, 8 + headerLength)) as Reply)
      socket.destroy()
    })
    socket.write(bytes)
  })
}
