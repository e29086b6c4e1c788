const LAG = 'rocketmq_consumer_lag_messages'
const LATENCY = 'rocketmq_consumer_lag_latency_milliseconds'

/** The sum and the age that a broker's metrics (Prometheus text) tell of a group on a topic; null if they tell nothing. */
export function lagIn(
  text: string,
  topic: string,
  group: string,
): { readonly messages: number; readonly oldestAgeMs: number } | null {
  const values = (name: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`))
      .filter((line) => has(line, 'topic', topic) && has(line, 'consumer_group', group))
      .map((line) => Number(/\} (\S+)/.exec(line)?.[1]))
      .filter(Number.isFinite)
  const lags = values(LAG) // one for each broker, and one for retries
  if (lags.length === 0) return null
  return {
    messages: Math.max(0, Math.round(lags.reduce((sum, lag) => sum + lag, 0))),
    oldestAgeMs: Math.max(0, ...values(LATENCY)),
  }
}

const has = (line: string, label: string, value: string) =>
  line.includes(`{${label}="${value}"`) || line.includes(`,${label}="${value}"`)
