import { useEmptyRedis } from '../harness/use-redis.js'
import { rateLimiter } from '../suites/rate-limiter.js'

rateLimiter('real', useEmptyRedis())
