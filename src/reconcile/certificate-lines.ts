import { createHash } from 'node:crypto'
import * as check from '../core/check.js'
import type { OrderRow } from '../core/order-book.js'
import type { PaymentRow, Seal } from '../core/reconcile.js'
import type { ReservationRecord } from '../core/types.js'

/** The first line: what the export is of. */
export interface SaleLine {
  readonly kind: 'sale'
  readonly schema: 1
  readonly activityId: string
  readonly version: string
  /** When it was exported, epoch ms. */
  readonly at: number
  /** Null in strong mode, which has no records. */
  readonly seal: Pick<Seal, 'epoch' | 'records' | 'checksum' | 'sealedAt'> | null
  /** Whether payments are in it. */
  readonly payments: boolean
}

/** Before the lines of an SKU, which come in order of number: what the database has in stock. */
export interface SkuLine {
  readonly kind: 'sku'
  readonly skuId: string
  /** S. */
  readonly units: number
  readonly available: number
}

export type OrderLine = { readonly kind: 'order' } & Pick<
  OrderRow,
  'orderNo' | 'userId' | 'quantity' | 'status' | 'reason' | 'amountMinor' | 'currency'
>

/** A sealed record of Redis. */
export type RecordLine = { readonly kind: 'record' } & Pick<
  ReservationRecord,
  'orderNo' | 'userId' | 'quantity' | 'state' | 'reservedAt' | 'bucket'
>

export type PaymentLine = { readonly kind: 'payment' } & Omit<PaymentRow, 'activityId' | 'skuId'>

/** What was sold of one SKU. Units, except in `closed`. */
export interface SkuCertificate {
  readonly skuId: string
  /** S. */
  readonly units: number
  /** Of paid orders. */
  readonly sold: number
  /** Of live orders not paid. */
  readonly confirmed: number
  /** Of orders closed by a refund, not on sale again. */
  readonly refunded: number
  /** Released in Redis. */
  readonly returned: number
  readonly available: number
  /** Orders closed, by reason. */
  readonly closed: { readonly [reason: string]: number }
}

/** The final statement of a sale; the last line of its export. */
export interface SaleCertificate {
  readonly kind: 'certificate'
  readonly activityId: string
  readonly version: string
  /** Epoch ms. */
  readonly at: number
  readonly skus: readonly SkuCertificate[]
  readonly orders: number
  readonly records: number
  readonly payments: number
  /** How often a law was broken. */
  readonly violations: number
  /** Of all lines before this one. Publish it: whoever has it knows a forged export. */
  readonly checksum: string
}

export type ExportLine = SaleLine | SkuLine | OrderLine | RecordLine | PaymentLine | SaleCertificate

/** Each line carries a hash of itself and of the line before. */
export class Chain {
  #last = ''

  get last(): string {
    return this.#last
  }

  add(line: ExportLine): string {
    const body = JSON.stringify(line).slice(0, -1)
    this.#last = linked(this.#last, body)
    return `${body},"chain":"${this.#last}"}`
  }

  /** False when the text is not what was exported after the line before. The next is measured by what this one claims. */
  follows(text: string): boolean {
    const [, body = '', claimed = ''] = LINE.exec(text) ?? []
    const good = claimed !== '' && linked(this.#last, body) === claimed
    this.#last = claimed
    return good
  }
}

const LINE = /^(\{.*),"chain":"([\w-]{43})"\}$/s

function linked(before: string, body: string): string {
  return createHash('sha256').update(before).update(body).digest('base64url')
}

/** @throws FlashSaleError `BAD_INPUT` for what is no line of an export */
export function parseLine(text: string): ExportLine {
  const line = JSON.parse(text) as ExportLine
  check.object(line, 'a line')
  switch (line.kind) {
    case 'sale':
      check.keyId(line.activityId, 'activityId')
      return line
    case 'sku':
      check.keyId(line.skuId, 'skuId')
      check.int(line.units, 'units', 0, check.MAX_UNITS)
      check.int(line.available, 'available', 0, check.MAX_UNITS)
      return line
    case 'order':
      check.oneOf(line.status, 'status', ['confirmed', 'paid', 'closed'])
      check.int(line.amountMinor, 'amountMinor', 0, Number.MAX_SAFE_INTEGER)
      return ofNumber(line)
    case 'record':
      check.oneOf(line.state, 'state', ['held', 'confirmed', 'paid', 'released'])
      return ofNumber(line)
    case 'payment':
      check.text(line.paymentId, 'paymentId', 200)
      for (const name of ['capturedMinor', 'refundingMinor', 'refundedMinor'] as const)
        check.int(line[name], name, 0, Number.MAX_SAFE_INTEGER)
      check.id(line.orderNo, 'orderNo')
      return line
    case 'certificate':
      return line
    default:
      return check.fail('BAD_INPUT', 'kind', 'that of a line', (line as { kind: unknown }).kind)
  }
}

function ofNumber<L extends OrderLine | RecordLine>(line: L): L {
  check.id(line.orderNo, 'orderNo')
  check.id(line.userId, 'userId')
  check.int(line.quantity, 'quantity', 1, 1_000)
  return line
}
