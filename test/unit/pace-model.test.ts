import { mockRedis } from '../harness/redis.js'
import { paceModel } from '../suites/pace-model.js'

paceModel('mock', async () => mockRedis(), { runs: 25 })
