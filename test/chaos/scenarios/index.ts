import type { Scenario } from '../scenario.js'
import { appScenarios } from './app.js'
import { brokerScenarios } from './brokers.js'
import { databaseScenarios } from './database.js'
import { redisScenarios } from './redis.js'

/** All scenarios, by the part that is broken. */
export const PARTS: Readonly<Record<string, readonly Scenario[]>> = {
  redis: redisScenarios,
  database: databaseScenarios,
  brokers: brokerScenarios,
  app: appScenarios,
}
