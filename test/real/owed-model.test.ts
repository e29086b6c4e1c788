import { useEmptyRedis } from '../harness/use-redis.js'
import { owedModel } from '../suites/owed-model.js'

owedModel('real', useEmptyRedis(), { runs: 500 })
