import type { Activity, Audit } from '../../core/types.js'
import { SIM_REF } from './ledger.js'

export const AUDIT: Audit = { actor: 'simulator', reason: 'simulated' }
export const NAMES = ['app1', 'app2', 'worker', 'relay'] as const
export type Name = (typeof NAMES)[number]

/** Numbers as the library makes them, and so do the simulated clients. */
const ID = /[0-9a-z]{19}/g
/** A reservation within a message, whatever else stands in it. */
const RESERVATION = /"orderNo":"([0-9a-z]{19})","userId":"([A-Z])"/g

/** A number of the library's own make, without chance: its moment, its buyer, and how many he had before. */
export function orderNumber(now: number, buyer: string, index: number): string {
  return `${now.toString(36).padStart(9, '0')}${buyer.toLowerCase()}${index.toString(36).padStart(9, '0')}`
}

/** What ids are called in a trace, where their chance must not show: buyer A's first number is `A1`. */
export class Names {
  private readonly names = new Map<string, string>()
  private readonly counts = new Map<string, number>()

  /** Names an id, unless it has a name. */
  add(id: string, kind: string): void {
    if (this.names.has(id)) return
    const count = (this.counts.get(kind) ?? 0) + 1
    this.counts.set(kind, count)
    this.names.set(id, `${kind}${count}`)
  }

  /** The text with names instead of ids; those without one are numbered as they come. */
  short(text: string): string {
    return text.replace(ID, (id) => {
      this.add(id, '#')
      return this.names.get(id) as string
    })
  }

  /** The names of all ids in a message or in the arguments of a script, each once. */
  readonly within = (text: string): readonly string[] => {
    for (const [, id, user] of text.matchAll(RESERVATION)) this.add(id as string, user as string)
    return [...new Set(text.match(ID))].flatMap((id) => this.names.get(id) ?? [])
  }
}

const HOUR = 3_600_000

/** Two units, and room for three orders at once: small enough for everything to meet everything. */
export function activityAt(now: number, payWithinMs = 700 * HOUR): Activity {
  return {
    activityId: SIM_REF.activityId,
    version: 'v1',
    opensAt: now - HOUR,
    endsAt: now + 1_000 * HOUR,
    payWithinMs,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 2,
    watermark: 3,
    skus: [{ skuId: SIM_REF.skuId, units: 2, priceMinor: 100, currency: 'CNY' }],
  }
}
