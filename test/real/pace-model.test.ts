import { useEmptyRedis } from '../harness/use-redis.js'
import { paceModel } from '../suites/pace-model.js'

paceModel('real', useEmptyRedis(), { runs: 600 })
