import { useEmptyRedis } from '../harness/use-redis.js'
import { stockModel } from '../suites/stock-model.js'

stockModel('real', useEmptyRedis(), { runs: 500 })
