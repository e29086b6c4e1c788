import type { Activity, Audit } from '../../core/types.js'
import { SIM_REF } from './ledger.js'

export const AUDIT: Audit = { actor: 'simulator', reason: 'simulated' }
export const NAMES = ['app1', 'app2', 'worker', 'relay'] as const
export type Name = (typeof NAMES)[number]

export const NUMBER = /[0-9a-z]{9}[a-z]0{8}[0-9a-z]/g

/** A number of the library's own make, without chance: its moment, its buyer, and how many he had before. */
export function orderNumber(now: number, buyer: string, index: number): string {
  return `${now.toString(36).padStart(9, '0')}${buyer.toLowerCase()}${index.toString(36).padStart(9, '0')}`
}

/** Buyer A's first number as `A1`. */
export function short(text: string): string {
  return text.replace(NUMBER, (no) => `${no[9]?.toUpperCase()}${no.at(-1)}`)
}

const HOUR = 3_600_000

/** Two units, and room for three orders at once: small enough for everything to meet everything. */
export function activityAt(now: number): Activity {
  return {
    activityId: SIM_REF.activityId,
    version: 'v1',
    opensAt: now - HOUR,
    endsAt: now + 1_000 * HOUR,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'off',
    maxPerOrder: 2,
    watermark: 3,
    skus: [{ skuId: SIM_REF.skuId, units: 2, priceMinor: 100, currency: 'CNY' }],
  }
}
