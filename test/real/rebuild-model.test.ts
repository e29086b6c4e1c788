import { useEmptyRedis } from '../harness/use-redis.js'
import { rebuildModel } from '../suites/rebuild-model.js'

rebuildModel('real', useEmptyRedis(), { runs: 500 })
