import { mockRedis } from '../harness/redis.js'
import { stockModel } from '../suites/stock-model.js'

stockModel('mock', async () => mockRedis(), { runs: 8 })
