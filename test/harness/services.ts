export { startMariadb } from './services/mariadb.js'
export { startPostgres } from './services/postgres.js'
export { startRedis, startRedisCluster } from './services/redis.js'
