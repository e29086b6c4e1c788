export { RocketmqQueue, type RocketmqQueueOptions } from './rocketmq-queue.js'
export type {
  RocketmqConsumer,
  RocketmqMessage,
  RocketmqModule,
  RocketmqProducer,
  RocketmqTransaction,
} from './sdk.js'
export {
  type TransactionMessage,
  TransactionSender,
  type TransactionSenderOptions,
} from './transaction-sender.js'
