import { mockRedis } from '../harness/redis.js'
import { stockBucket } from '../suites/stock-bucket.js'

stockBucket('mock', async () => mockRedis())
