import { createHash } from 'node:crypto'
import {
  compareRecord,
  holdsUnits,
  type Law,
  Money,
  type Numbered,
  type Violation,
} from './certificate-laws.js'
import type {
  ExportLine,
  OrderLine,
  PaymentLine,
  RecordLine,
  SaleCertificate,
  SaleLine,
  SkuCertificate,
  SkuLine,
} from './certificate-lines.js'
import { addToSeal } from './seal.js'

type Sums = { -readonly [K in keyof SkuCertificate]: SkuCertificate[K] }

/**
 * Reads the lines of an export one after the other and keeps the sums, so that export and verification reckon alike.
 * Memory grows with the buyers who hold units of one SKU, which are at most S, not with the lines.
 */
export class SaleAudit {
  violations = 0
  private line = 0
  private sale: SaleLine | null = null
  private readonly skus: Sums[] = []
  private sku: { readonly line: number; readonly sums: Sums; closed: Map<string, number> } | null =
    null
  private number: Numbered | null = null
  private readonly counts = { orders: 0, records: 0, payments: 0 }
  private readonly money = new Money()
  private readonly seal = createHash('sha256')
  private buyers = new Set<string>()

  constructor(private readonly onViolation: (violation: Violation) => void) {}

  broken(law: Law, what: string, line = this.line): void {
    this.violations++
    this.onViolation({ line, law, what })
  }

  add(line: ExportLine): void {
    this.line++
    switch (line.kind) {
      case 'sale':
        if (this.sale) this.broken('disordered', 'a second sale')
        this.sale ??= line
        return
      case 'sku':
        this.endSku()
        this.beginSku(line)
        return
      case 'order':
      case 'record':
      case 'payment':
        this.addOf(line)
        return
      case 'certificate':
        return
      default:
        line satisfies never
    }
  }

  /** A line that says nothing. */
  skip(law: Law, what: string): void {
    this.line++
    this.broken(law, what)
  }

  /** What all lines so far amount to. */
  certificate(checksum: string): SaleCertificate {
    this.endSku()
    this.money.end((line, law, what) => this.sale?.payments && this.broken(law, what, line))
    const { sale } = this
    if (sale?.seal) {
      const same =
        sale.seal.checksum === this.seal.digest('hex') && sale.seal.records === this.counts.records
      if (!same) this.broken('seal', 'the records are not those that were sealed', 1)
    }
    const { violations } = this
    return {
      kind: 'certificate',
      activityId: sale?.activityId ?? '',
      version: sale?.version ?? '',
      at: sale?.at ?? 0,
      skus: this.skus,
      ...this.counts,
      violations,
      checksum,
    }
  }

  private beginSku({ skuId, units, available }: SkuLine): void {
    const sums: Sums = {
      ...{ skuId, units, sold: 0, confirmed: 0, refunded: 0, returned: 0, available },
      closed: {},
    }
    this.skus.push(sums)
    this.sku = { line: this.line, sums, closed: new Map() }
    this.buyers = new Set()
  }

  private addOf(line: OrderLine | RecordLine | PaymentLine): void {
    if (!this.sku || (this.number && line.orderNo < this.number.orderNo))
      this.broken('disordered', `${line.kind} ${line.orderNo}`)
    if (this.number?.orderNo !== line.orderNo) {
      this.endNumber()
      const { orderNo } = line
      this.number = { line: this.line, orderNo, order: null, record: null, payments: [] }
    }
    const number = this.number as Numbered
    if (line.kind === 'payment') {
      this.counts.payments++
      number.payments.push(line)
      return
    }
    if (number[line.kind]) this.broken('disordered', `a second ${line.kind} of ${line.orderNo}`)
    if (line.kind === 'order') {
      this.counts.orders++
      number.order = line
    } else {
      this.counts.records++
      number.record = line
      addToSeal(this.seal, { ...line, skuId: this.sku?.sums.skuId ?? '' })
    }
  }

  private endNumber(): void {
    const { number, sku, sale } = this
    this.number = null
    if (!number || !sku) return
    const broken = (law: Law, what: string) =>
      this.broken(law, `${number.orderNo}: ${what}`, number.line)
    if (sale?.seal) compareRecord(number, broken)
    if (sale?.payments) this.money.take(number, broken)
    const { order, record } = number
    if (record?.state === 'released') sku.sums.returned += record.quantity
    if (!order) return
    if (order.status === 'paid') sku.sums.sold += order.quantity
    else if (order.status === 'confirmed') sku.sums.confirmed += order.quantity
    else {
      if (holdsUnits(order)) sku.sums.refunded += order.quantity
      // Of `veto:…` the first word: what a host says behind it may be different each time.
      const reason = order.reason?.split(':', 1)[0] ?? ''
      sku.closed.set(reason, (sku.closed.get(reason) ?? 0) + 1)
      return
    }
    if (this.buyers.has(order.userId)) broken('second-order', `of buyer ${order.userId}`)
    this.buyers.add(order.userId)
  }

  private endSku(): void {
    this.endNumber()
    const { sku } = this
    this.sku = null
    if (!sku) return
    const { sums, line } = sku
    sums.closed = Object.fromEntries([...sku.closed].sort(([a], [b]) => (a < b ? -1 : 1)))
    const taken = sums.sold + sums.confirmed + sums.refunded
    if (taken > sums.units)
      this.broken('oversold', `${sums.skuId}: ${taken} of ${sums.units} units`, line)
    if (taken + sums.available !== sums.units)
      this.broken(
        'units-differ',
        `${sums.skuId}: ${taken} sold and ${sums.available} available of ${sums.units}`,
        line,
      )
  }
}
