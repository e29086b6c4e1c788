import { useEmptyRedis } from '../harness/use-redis.js'
import { stockBucket } from '../suites/stock-bucket.js'

stockBucket('real', useEmptyRedis())
