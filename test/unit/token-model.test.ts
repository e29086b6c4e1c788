import { mockRedis } from '../harness/redis.js'
import { tokenModel } from '../suites/token-model.js'

tokenModel('mock', async () => mockRedis(), { runs: 10 })
