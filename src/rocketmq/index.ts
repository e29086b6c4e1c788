export { RocketmqQueue, type RocketmqQueueOptions } from './rocketmq-queue.js'
export type {
  RocketmqConsumer,
  RocketmqMessage,
  RocketmqModule,
  RocketmqProducer,
} from './sdk.js'
