import { mockRedis } from '../harness/redis.js'
import { limitModel } from '../suites/limit-model.js'

limitModel('mock', async () => mockRedis(), { runs: 25 })
