import { useEmptyRedis } from '../harness/use-redis.js'
import { tokenModel } from '../suites/token-model.js'

tokenModel('real', useEmptyRedis(), { runs: 500 })
