import { mockRedis } from '../harness/redis.js'
import { rebuildModel } from '../suites/rebuild-model.js'

rebuildModel('mock', async () => mockRedis(), { runs: 6 })
