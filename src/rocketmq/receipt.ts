import type { RocketmqMessage } from './sdk.js'

/** Fields of a handle, separated by spaces, as RocketMQ 5 writes them; more may follow. */
const START_OFFSET = 0
const OFFSET = 7

/**
 * To be called after each change of the invisible time. The broker then answers with a handle that still names the first
 * message of the receive it came with, but files it under the message's own offset; unless it is corrected, all but that
 * first message come again, acknowledged or not (apache/rocketmq#9583, seen with 5.5.0 at every second renewal).
 */
export function correctHandle(message: RocketmqMessage): void {
  const fields = message.receiptHandle.split(' ')
  const [start, offset] = [fields[START_OFFSET], fields[OFFSET]]
  if (!isNumber(start) || !isNumber(offset)) return
  fields[START_OFFSET] = offset
  message.receiptHandle = fields.join(' ')
}

const isNumber = (field: string | undefined): field is string => /^\d+$/.test(field ?? '')
