import type { ReservationState } from '../core/types.js'

/** `state|orderNo|quantity|reservedAt|tokenId`, the value of a buyer's field in the `done` hash (see lua/lib/record.lua). */
export interface StoredRecord {
  readonly state: ReservationState
  readonly orderNo: string
  readonly quantity: number
  readonly reservedAt: number
  readonly tokenId: string
}

const STATES: Readonly<Record<string, ReservationState>> = {
  h: 'held',
  c: 'confirmed',
  p: 'paid',
  r: 'released',
}

export function heldRecord(
  r: Pick<StoredRecord, 'orderNo' | 'quantity' | 'reservedAt'>,
  tokenId: string,
): string {
  return `h|${r.orderNo}|${r.quantity}|${r.reservedAt}|${tokenId}`
}

const RECORD = /^([hcpr])\|([!-{}~]+)\|(\d{1,15})\|(\d{1,15})\|([!-{}~]*)$/

/** Null for anything that is not a record; the caller reports it. */
export function parseRecord(text: string): StoredRecord | null {
  const [, letter = '', orderNo = '', quantity, reservedAt, tokenId = ''] = RECORD.exec(text) ?? []
  const state = STATES[letter]
  if (!state) return null
  return { state, orderNo, quantity: Number(quantity), reservedAt: Number(reservedAt), tokenId }
}
