import type { FlashSaleEvents } from '../core/ports.js'
import { quiet } from '../core/quiet.js'

export type Alert = (code: string, detail: { readonly [key: string]: unknown }) => void

/** Alerts that one refused click would raise after the other. */
const PER_CLICK = new Set([
  'rate-cap-alone',
  'not-warmed',
  'script-mismatch',
  'rewound',
  'stop-failed',
  'activity-unread',
  'stock-error',
])

/** What a crowd sets off is said once a second: a pager must not hear every refused click. */
export function alerts(events: FlashSaleEvents | undefined): Alert {
  const say: Alert = quiet('events.onAlert', events?.onAlert, events)
  const saidAt = new Map<string, number>()
  return (code, detail) => {
    if (PER_CLICK.has(code)) {
      const topic = `${code} ${String(detail['activityId'] ?? '')}`
      const now = performance.now()
      if (now - (saidAt.get(topic) ?? Number.NEGATIVE_INFINITY) < 1_000) return
      saidAt.set(topic, now)
    }
    say(code, detail)
  }
}
