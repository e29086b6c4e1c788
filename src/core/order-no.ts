import { randomFillSync } from 'node:crypto'
import { instant } from './check.js'

const DIGITS = Buffer.from('0123456789abcdefghijklmnopqrstuvwxyz')
const pool = Buffer.allocUnsafe(4_000)
let used = pool.length

/** Ten characters from 36: 51 bits, so among a million numbers of one millisecond a clash has a chance of 1 in 4,000. */
function randomTail(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    // 256 is no multiple of 36: four of the digits come up 8 instead of 7 times in 256, which costs 0.01 bit.
    for (let i = 0; i < pool.length; i++) pool[i] = DIGITS[(pool[i] as number) % 36] as number
    used = 0
  }
  used += 10
  return pool.toString('latin1', used - 10, used)
}

let lastAt = 0
let lastHead = ''

/** A new order number: the milliseconds of its making in base 36 (nine characters, so numbers sort by time), and a random tail. */
export function newOrderNo(now?: number): string {
  const at = now === undefined ? Date.now() : instant(now, 'now')
  if (at !== lastAt) {
    lastAt = at
    lastHead = at.toString(36).padStart(9, '0')
  }
  return lastHead + randomTail()
}

/** When a number made by {@link newOrderNo} was made, epoch ms; null for a number of other make. */
export function orderNoMadeAt(orderNo: string): number | null {
  if (!/^[0-9a-z]{19}$/.test(orderNo)) return null
  const at = Number.parseInt(orderNo.slice(0, 9), 36)
  return at >= 1e12 && at < 1e14 ? at : null
}
