/**
 * Real servers on free loopback ports: `startX()` resolves when it answers, `kill`, `restart` and `stop` are those of
 * `Server`, and none outlives the process that started it. Seconds to start on two cores, quiet and with ten others at work:
 * Redis 0.1 · Redis under Sentinel and a cluster of six nodes 3 · nginx 0.1 · MySQL 1.2 and 4 · MariaDB and PostgreSQL 2 and 6 · Kafka 2.7 and 6 · RocketMQ 3 and 9.
 */
export { startKafka } from './services/kafka.js'
export { startMariadb } from './services/mariadb.js'
export { startMysql } from './services/mysql.js'
export { startNginx } from './services/nginx.js'
export { startPostgres } from './services/postgres.js'
export { startRedis, startRedisCluster } from './services/redis.js'
export { startRedisNodes } from './services/redis-nodes.js'
export { startRedisSentinel } from './services/redis-sentinel.js'
export { startRocketmq } from './services/rocketmq.js'
