export {
  type QueueCase,
  type QueueFeature,
  type QueueUnderTest,
  queueSuite,
} from './queue-suite.js'
