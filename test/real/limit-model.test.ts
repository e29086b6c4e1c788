import { useEmptyRedis } from '../harness/use-redis.js'
import { limitModel } from '../suites/limit-model.js'

limitModel('real', useEmptyRedis(), { runs: 600 })
