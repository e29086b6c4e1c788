import { createHash } from 'node:crypto'
import {
  type Activity,
  exportSale,
  type OrderRow,
  type PaymentRow,
  type ReservationRecord,
  type Seal,
  type SealStore,
  verifyCertificate,
} from 'flash-sale-kit'
import { activityOf, sku } from './stock-bucket/world.js'

export type SealedRecord = ReservationRecord

/** A {@link SealStore} in memory. */
export class MemorySeals implements SealStore {
  readonly kept = new Map<string, SealedRecord>()
  seal: Seal | null = null
  private changes = 0

  async find(): Promise<Seal | null> {
    return this.seal
  }
  async generation(): Promise<number> {
    return this.changes
  }
  async put(_: unknown, records: readonly SealedRecord[]): Promise<boolean> {
    if (this.seal) return false
    for (const r of records) {
      if (JSON.stringify(this.kept.get(r.orderNo)) !== JSON.stringify(r)) this.changes++
      this.kept.set(r.orderNo, r)
    }
    return true
  }
  async drop(_: unknown, orderNos: readonly string[]): Promise<boolean> {
    if (this.seal) return false
    for (const orderNo of orderNos) if (this.kept.delete(orderNo)) this.changes++
    return true
  }
  async *records({ skuId }: { readonly skuId: string }): AsyncGenerator<SealedRecord> {
    const all = [...this.kept.values()].filter((r) => r.skuId === skuId)
    yield* all.sort((a, b) => (a.orderNo < b.orderNo ? -1 : 1))
  }
  async finish({ generation, ...seal }: Parameters<SealStore['finish']>[0]): Promise<Seal | null> {
    if (!this.seal && generation !== this.changes) return null
    this.seal ??= { ...seal, sealedAt: 1_790_000_000_000 }
    return this.seal
  }
}

/** SHA-256 over the records as the documentation says, spelled out. */
export function checksumOf(records: readonly SealedRecord[]): string {
  const hash = createHash('sha256')
  for (const r of records)
    hash.update(
      `${r.skuId}|${r.orderNo}|${r.userId}|${r.state}|${r.quantity}|${r.reservedAt}|${r.bucket}\n`,
    )
  return hash.digest('hex')
}

const OF = {
  activityId: 'a1',
  skuId: 's1',
  bucket: 0,
  version: 'v1',
  reservedAt: 1_790_000_000_000,
}

export function record(orderNo: string, o: Partial<SealedRecord> = {}): SealedRecord {
  return { ...OF, orderNo, userId: `u${orderNo}`, quantity: 1, state: 'paid', ...o }
}

export function order(orderNo: string, o: Partial<OrderRow> = {}): OrderRow {
  const { state: _, ...reservation } = record(orderNo)
  const price = { amountMinor: 100, currency: 'CNY', payBy: 1_790_000_900_000 }
  return { ...reservation, ...price, status: 'paid', reason: null, ...o }
}

export function payment(orderNo: string, o: Partial<PaymentRow> = {}): PaymentRow {
  return {
    ...{ activityId: 'a1', skuId: 's1', orderNo, paymentId: `p${orderNo}`, channel: 'c' },
    ...{ status: 'paid', paidOrderNo: orderNo, amountMinor: 100, currency: 'CNY' },
    ...{ capturedMinor: 100, refundingMinor: 0, refundedMinor: 0, ...o },
  }
}

export interface Sale {
  /** S and what is available, by SKU. */
  readonly skus?: Readonly<Record<string, readonly [units: number, available: number]>>
  readonly orders: readonly OrderRow[]
  readonly records?: readonly SealedRecord[]
  readonly payments?: readonly PaymentRow[]
  readonly activity?: Partial<Activity>
  /** What the seal says of the records, if not the truth. */
  readonly seal?: Partial<Seal>
}

/** What an export reads, from lists. */
export async function partsOf({ skus = { s1: [9, 9] }, orders, records = [], ...o }: Sale) {
  const seals = new MemorySeals()
  const ids = Object.keys(skus)
  const place = (r: SealedRecord) => `${ids.indexOf(r.skuId)} ${r.orderNo}`
  const inOrder = [...records].sort((a, b) => (place(a) < place(b) ? -1 : 1))
  await seals.put(null, inOrder)
  const seal = { activityId: 'a1', version: 'v1', epoch: 7, records: records.length }
  const generation = await seals.generation()
  await seals.finish({ ...seal, checksum: checksumOf(inOrder), ...o.seal, generation })
  const activity = activityOf({ skus: ids.map((id) => sku(9, id)), ...o.activity })
  const rows = async function* <R extends { readonly skuId: string }>(
    all: readonly R[],
    id: string,
  ) {
    yield* all.filter((r) => r.skuId === id)
  }
  const { payments } = o
  return {
    seals,
    activities: { load: async (id: string) => (id === 'a1' ? activity : null) },
    orders: {
      snapshot: ({ skuId }: { skuId: string }) => rows(orders, skuId),
      numbers: async (ref: { activityId: string; skuId: string }) => {
        const [total = 0, available = 0] = skus[ref.skuId] ?? []
        return { ...ref, total, available, live: total - available }
      },
    },
    ...(payments
      ? {
          payments: {
            snapshot: ({ skuId }: { skuId: string }) => rows(payments, skuId),
            find: async () => [],
          },
        }
      : {}),
  }
}

export async function linesOf(sale: Sale): Promise<string[]> {
  const lines: string[] = []
  for await (const line of exportSale(await partsOf(sale), 'a1')) lines.push(line)
  return lines
}

/** Which laws the sale breaks, by its export, each as often as it does. */
export async function broken(sale: Sale): Promise<string[]> {
  const { violations, certificate } = await verifyCertificate(await linesOf(sale))
  if (certificate.violations !== violations.length) throw new Error('not all were counted')
  return violations.map((v) => v.law)
}
