export { RedisStreamQueue, type RedisStreamQueueOptions } from './redis-stream-queue.js'
