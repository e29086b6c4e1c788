import { mockRedis } from '../harness/redis.js'
import { owedModel } from '../suites/owed-model.js'

owedModel('mock', async () => mockRedis(), { runs: 6 })
