import { useEmptyRedis } from '../harness/use-redis.js'
import { streamModel } from '../suites/stream-model.js'

streamModel(useEmptyRedis(), { runs: 3_000 })
