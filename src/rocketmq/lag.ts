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

const METRICS_TIMEOUT_MS = 2_000
/** How old figures may be. A broker reckons them anew for whoever asks, for all of its topics. */
const FRESH_MS = 1_000

/** The metrics of all brokers, asked for once for all who want them within a second: probes, and there are several, ask more often. */
export class Metrics {
  private text: Promise<string> | null = null

  constructor(private readonly urls: readonly string[]) {}

  read(): Promise<string> {
    this.text ??= this.ask()
    return this.text
  }

  private async ask(): Promise<string> {
    try {
      return (await Promise.all(this.urls.map(metricsOf))).join('\n')
    } finally {
      setTimeout(() => {
        this.text = null
      }, FRESH_MS).unref()
    }
  }
}

async function metricsOf(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(METRICS_TIMEOUT_MS) })
  if (!response.ok) throw new Error(`${url} answered ${response.status}`)
  return response.text()
}
