import { FlashSaleError } from '../core/errors.js'

/** Drivers hand out bigint, COUNT and SUM as strings or BigInts, and '1' + '1' is no sum. */
export function exactNumber(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  const text = typeof value === 'bigint' ? String(value) : value
  if (typeof text === 'string' && /^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text)))
    return Number(text)
  throw new FlashSaleError(
    'CORRUPT',
    `${name} is no exact whole number: ${String(value).slice(0, 40)}`,
  )
}
