import * as check from '../../core/check.js'
import type { Seal, SealStore } from '../../core/reconcile.js'
import type { ReservationRecord, ReservationState, SkuRef } from '../../core/types.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { type Column, exact } from '../sql/dialect.js'
import type { Row } from '../sql/statements.js'
import type { Tx } from '../sql/tx.js'

const text = (name: string): Column => ({ name, kind: 'text' })
const int = (name: string): Column => ({ name, kind: 'int' })
const COLUMNS: readonly Column[] = [
  text('activity_id'),
  text('sku_id'),
  text('order_no'),
  text('user_id'),
  text('state'),
  int('quantity'),
  int('reserved_at'),
  int('bucket'),
  text('version'),
]
const SELECT = COLUMNS.map((c) => c.name).join(', ')
/** MariaDB turns longer IN lists into a join with a table of its own. */
const MAX_PUT = 1_000
const STATES = ['held', 'confirmed', 'paid', 'released'] as const

/** {@link SealStore} in two tables, `seckill_sealed` and `seckill_seal`. Throws what `KnexOrderBook` throws. */
export class KnexSealStore implements SealStore {
  readonly #database: Database

  constructor(o: DatabaseOptions) {
    this.#database = new Database(o)
  }

  async find(activityId: string): Promise<Seal | null> {
    const id = check.keyId(activityId, 'activityId')
    return sealOf(await this.#row(id))
  }

  async generation(activityId: string): Promise<number> {
    return generationOf(await this.#row(check.keyId(activityId, 'activityId')))
  }

  async put(ref: SkuRef, records: readonly ReservationRecord[]): Promise<boolean> {
    const { activityId, skuId } = check.skuRef(ref)
    check.array(records, 'records')
    check.int(records.length, 'records.length', 0, MAX_PUT)
    const rows = new Map(
      (records as readonly ReservationRecord[]).map((record) => {
        const { orderNo, userId, quantity, reservedAt, bucket, version } = check.reservation(record)
        const state = check.oneOf(record.state, 'state', STATES)
        const row = [
          activityId,
          skuId,
          orderNo,
          userId,
          state,
          quantity,
          reservedAt,
          bucket,
          version,
        ]
        return [orderNo, row] as const
      }),
    )
    const { sealed } = this.#database.tables
    return this.#change(activityId, async (tx) => {
      if (rows.size === 0) return false
      const list = Array(rows.size).fill('?').join(',')
      const found = await tx.all(
        `SELECT ${SELECT} FROM ${sealed} WHERE activity_id = ? AND sku_id = ? AND order_no IN (${list})`,
        [activityId, skuId, ...rows.keys()],
      )
      const kept = new Map(found.map((row) => [row.order_no as string, valuesOf(row)]))
      const fresh = [...rows].filter(([orderNo]) => !kept.has(orderNo))
      await tx.insert(
        sealed,
        COLUMNS,
        fresh.map(([, row]) => row),
      )
      const changed = [...rows].filter(([orderNo, row]) => {
        const old = kept.get(orderNo)
        return old && String(old) !== String(row)
      })
      for (const [orderNo, row] of changed)
        await tx.run(
          `UPDATE ${sealed} SET user_id = ?, state = ?, quantity = ?, reserved_at = ?, bucket = ?, version = ? WHERE activity_id = ? AND sku_id = ? AND order_no = ?`,
          [...row.slice(3), activityId, skuId, orderNo],
        )
      return fresh.length > 0 || changed.length > 0
    })
  }

  async drop(ref: SkuRef, orderNos: readonly string[]): Promise<boolean> {
    const { activityId, skuId } = check.skuRef(ref)
    check.array(orderNos, 'orderNos')
    const numbers = orderNos.map((orderNo) => check.id(orderNo, 'orderNo'))
    const { sealed } = this.#database.tables
    return this.#change(activityId, async (tx) => {
      const dropped = await tx.runIn(
        `DELETE FROM ${sealed} WHERE activity_id = ? AND sku_id = ? AND order_no IN (??)`,
        [activityId, skuId],
        numbers,
      )
      return dropped > 0
    })
  }

  /** Page by page, each a read of its own: what is sealed does not change, and no connection is held in between. */
  async *records(ref: SkuRef): AsyncGenerator<ReservationRecord> {
    const { activityId, skuId } = check.skuRef(ref)
    const { sealed } = this.#database.tables
    for (let after = ''; ; ) {
      const rows = await this.#database.read((on) =>
        on.all(
          `SELECT ${SELECT} FROM ${sealed} WHERE activity_id = ? AND sku_id = ? AND order_no > ? ORDER BY order_no LIMIT ${MAX_PUT}`,
          [activityId, skuId, after],
        ),
      )
      for (const row of rows) yield recordOf(row)
      if (rows.length < MAX_PUT) return
      after = rows[MAX_PUT - 1]?.order_no as string
    }
  }

  async finish(seal: Parameters<SealStore['finish']>[0]): Promise<Seal | null> {
    check.object(seal, 'seal')
    const id = check.keyId(seal.activityId, 'seal.activityId')
    const values = [
      check.id(seal.version, 'seal.version'),
      check.int(seal.epoch, 'seal.epoch', 0, 1e15),
      check.int(seal.records, 'seal.records', 0, 1e12),
      check.text(seal.checksum, 'seal.checksum', 64),
    ]
    const generation = check.int(seal.generation, 'seal.generation', 0, 1e15)
    return this.#database.write(async (tx) => {
      const row = await this.#lock(tx, id)
      const there = sealOf(row)
      if (there) return there
      if (generationOf(row) !== generation) return null
      const now = await tx.now()
      await tx.run(
        `UPDATE ${this.#table} SET version = ?, epoch = ?, records = ?, checksum = ?, sealed_at = ? WHERE activity_id = ?`,
        [...values, now, id],
      )
      const { activityId, version, epoch, records, checksum } = seal
      return { activityId, version, epoch, records, checksum, sealedAt: now }
    })
  }

  get #table(): string {
    return this.#database.tables.seal
  }

  get #rowSql(): string {
    return `SELECT activity_id, generation, version, epoch, records, checksum, sealed_at FROM ${this.#table} WHERE activity_id = ?`
  }

  async #row(activityId: string): Promise<Row | undefined> {
    const [row] = await this.#database.read((on) => on.all(this.#rowSql, [activityId]))
    return row
  }

  /** The activity's row, made if need be: who changes records and who seals them have it for themselves. */
  async #lock(tx: Tx, activityId: string): Promise<Row | undefined> {
    const [row] = await tx.all(`${this.#rowSql}${tx.dialect.forUpdate}`, [activityId])
    // Two who come first meet in the primary key, and the later repeats and finds the row.
    if (!row)
      await tx.run(`INSERT INTO ${this.#table} (activity_id, generation) VALUES (?, 0)`, [
        activityId,
      ])
    return row
  }

  /** `work` says whether it has changed a record. False once the activity is sealed. */
  #change(activityId: string, work: (tx: Tx) => Promise<boolean>): Promise<boolean> {
    return this.#database.write(async (tx) => {
      if (sealOf(await this.#lock(tx, activityId))) return false
      if (await work(tx))
        await tx.run(
          `UPDATE ${this.#table} SET generation = generation + 1 WHERE activity_id = ?`,
          [activityId],
        )
      return true
    })
  }
}

function generationOf(row: Row | undefined): number {
  return row ? exact(row.generation, 'generation') : 0
}

/** Null before the records are sealed. */
function sealOf(row: Row | undefined): Seal | null {
  if (!row || row.sealed_at === null) return null
  return {
    activityId: row.activity_id as string,
    version: row.version as string,
    epoch: exact(row.epoch, 'epoch'),
    records: exact(row.records, 'records'),
    checksum: row.checksum as string,
    sealedAt: exact(row.sealed_at, 'sealed_at'),
  }
}

function recordOf(row: Row): ReservationRecord {
  return {
    activityId: row.activity_id as string,
    skuId: row.sku_id as string,
    orderNo: row.order_no as string,
    userId: row.user_id as string,
    state: row.state as ReservationState,
    quantity: exact(row.quantity, 'quantity'),
    reservedAt: exact(row.reserved_at, 'reserved_at'),
    bucket: exact(row.bucket, 'bucket'),
    version: row.version as string,
  }
}

/** In the order of {@link COLUMNS}. */
function valuesOf(row: Row): readonly unknown[] {
  return COLUMNS.map(({ name, kind }) => (kind === 'int' ? exact(row[name], name) : row[name]))
}
