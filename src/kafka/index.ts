export type { KafkaLike } from './client.js'
export { KafkaQueue, type KafkaQueueOptions } from './kafka-queue.js'
export { lagOf } from './lag.js'
