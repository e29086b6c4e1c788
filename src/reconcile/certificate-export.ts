import * as check from '../core/check.js'
import type { OrderBook } from '../core/order-book.js'
import type { ActivityStore } from '../core/ports.js'
import type { PaymentRecords, SealStore } from '../core/reconcile.js'
import type { Activity, SkuRef } from '../core/types.js'
import { SaleAudit } from './certificate-audit.js'
import { Chain, type ExportLine, type SaleCertificate } from './certificate-lines.js'

export interface ExportParts {
  readonly activities: Pick<ActivityStore, 'load'>
  readonly orders: Pick<OrderBook, 'snapshot' | 'numbers'>
  /** Needed unless the activity is in strong mode. */
  readonly seals?: SealStore
  /** With them the export also proves that money and orders belong together. */
  readonly payments?: PaymentRecords
}

/**
 * The whole sale as lines of JSON (NDJSON without the line feeds): orders, sealed records and payments by number, and the
 * certificate at the end. Streams: at most three connections of the pool at once, one page of each in memory.
 *
 * @throws FlashSaleError `BAD_INPUT` for an activity that the store does not have, or whose records are not sealed; what the
 *   stores throw
 */
export async function* exportSale(
  parts: ExportParts,
  activityId: string,
  o: { readonly signal?: AbortSignal } = {},
): AsyncGenerator<string> {
  const { activity, seal } = await known(parts, activityId)
  const { activityId: id, version, skus } = activity
  const chain = new Chain()
  const audit = new SaleAudit(() => {})
  const put = (line: ExportLine): string => {
    audit.add(line)
    return chain.add(line)
  }
  const payments = parts.payments !== undefined
  yield put({
    kind: 'sale',
    schema: 1,
    activityId: id,
    version,
    at: Date.now(),
    seal: seal && {
      epoch: seal.epoch,
      records: seal.records,
      checksum: seal.checksum,
      sealedAt: seal.sealedAt,
    },
    payments,
  })
  for (const { skuId } of skus) {
    const ref = { activityId: id, skuId }
    const { total = 0, available = 0 } = (await parts.orders.numbers(ref)) ?? {}
    yield put({ kind: 'sku', skuId, units: total, available })
    for await (const line of merged([orders(parts, ref), records(parts, ref), paid(parts, ref)])) {
      o.signal?.throwIfAborted()
      yield put(line)
    }
  }
  yield put(audit.certificate(chain.last))
}

/** The certificate alone; it reads all that an export reads. */
export async function certifySale(
  parts: ExportParts,
  activityId: string,
  o: { readonly signal?: AbortSignal } = {},
): Promise<SaleCertificate> {
  let last = ''
  for await (const line of exportSale(parts, activityId, o)) last = line
  const { chain: _, ...certificate } = JSON.parse(last) as SaleCertificate & { chain: string }
  return certificate
}

async function known({ activities, seals }: ExportParts, activityId: string) {
  const id = check.keyId(activityId, 'activityId')
  const activity: Activity | null = await activities.load(id)
  if (!activity) return check.fail('BAD_INPUT', 'activityId', 'of an activity in the store', id)
  if (activity.mode === 'strong') return { activity, seal: null }
  const seal = (await seals?.find(id)) ?? null
  if (!seal) return check.fail('BAD_INPUT', 'activityId', 'of a sealed activity', id)
  return { activity, seal }
}

type Numbered = Extract<ExportLine, { readonly orderNo: string }>

async function* orders(parts: ExportParts, ref: SkuRef): AsyncGenerator<Numbered> {
  for await (const row of parts.orders.snapshot(ref)) {
    const { orderNo, userId, quantity, status, reason, amountMinor, currency } = row
    yield { kind: 'order', orderNo, userId, quantity, status, reason, amountMinor, currency }
  }
}

async function* records({ seals }: ExportParts, ref: SkuRef): AsyncGenerator<Numbered> {
  if (!seals) return
  for await (const record of seals.records(ref)) {
    const { orderNo, userId, quantity, state, reservedAt, bucket } = record
    yield { kind: 'record', orderNo, userId, quantity, state, reservedAt, bucket }
  }
}

async function* paid({ payments }: ExportParts, ref: SkuRef): AsyncGenerator<Numbered> {
  if (!payments) return
  for await (const { activityId: _, skuId: __, ...row } of payments.snapshot(ref))
    yield { kind: 'payment', ...row }
}

/** Streams that are each in order of number become one; of equal numbers the earlier stream's come first. */
async function* merged(streams: readonly AsyncGenerator<Numbered>[]): AsyncGenerator<Numbered> {
  try {
    const heads = await Promise.all(streams.map((s) => s.next()))
    for (;;) {
      let first = -1
      heads.forEach((head, i) => {
        const best = heads[first]
        if (!head.done && (!best || best.done || head.value.orderNo < best.value.orderNo)) first = i
      })
      const head = heads[first]
      if (!head || head.done) return
      yield head.value
      heads[first] = await (streams[first] as AsyncGenerator<Numbered>).next()
    }
  } finally {
    // Whoever leaves the loop early gives the connections back.
    await Promise.all(streams.map((s) => s.return(undefined)))
  }
}
