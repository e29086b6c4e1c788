import type { Knex } from 'knex'
import * as check from '../../core/check.js'
import { FlashSaleError } from '../../core/errors.js'
import type {
  ManualTask,
  OrderBook,
  OrderRow,
  OwedRelease,
  PreparedNumbers,
  Verdict,
} from '../../core/order-book.js'
import type { Activity, Audit, DbNumbers, Reservation, SkuRef } from '../../core/types.js'
import { addManualTask, checkManualTask } from '../manual-tasks.js'
import { owedReleases } from '../reconcile/owed-releases.js'
import { Database, type DatabaseOptions } from '../sql/database.js'
import { migrate } from '../sql/migrate.js'
import { type SchemaDialect, schemaSql } from '../sql/schema.js'
import { closeUnpaid } from './close.js'
import { find, findByBuyer, overdue, snapshot } from './find.js'
import { GroupCommit } from './group-commit.js'
import type { OrderHooks } from './hooks.js'
import * as input from './input.js'
import { Releases } from './releases.js'
import type { OnePer } from './rows.js'
import { prepare, readNumbers, readTopUps, topUp } from './stock.js'
import type { StockUpdate } from './stock-rows.js'
import { StrongMode } from './strong.js'
import { verdictOfDecision } from './verdicts.js'

export interface KnexOrderBookOptions extends DatabaseOptions {
  /** The host's part of each transaction. */
  readonly hooks?: OrderHooks
  /**
   * What a buyer may have one live order of. Must not change while orders live.
   * @defaultValue `activity+sku`
   */
  readonly onePer?: OnePer
  /**
   * How the stock row is taken. `optimistic` also compares the row's version and repeats: right where conflicts are
   * rare, slower where the row is hot.
   * @defaultValue `conditional`
   */
  readonly stockUpdate?: StockUpdate
  /** Strong mode: how many may wait for one SKU before `DB_BUSY`. @defaultValue 2,000 */
  readonly maxWaiting?: number
  /** Strong mode: how long a call may wait before its transaction begins, ms. @defaultValue 3,000 */
  readonly maxWaitMs?: number
}

/**
 * {@link OrderBook} on MySQL 8+, MariaDB 10.6+, PostgreSQL or SQLite. Every method checks its input first (`BAD_INPUT`,
 * before any I/O), runs in transactions of its own on one connection, and repeats them whole when the database is in
 * trouble; then it throws `DB_BUSY` or `DB_UNAVAILABLE` (nothing was written) or `OUTCOME_UNKNOWN` (ask again by number;
 * calling the same again is always safe). A batch that had to be split by a failing hook may be written in part.
 */
export class KnexOrderBook implements OrderBook {
  readonly #database: Database
  readonly #hooks: OrderHooks
  readonly #commits: GroupCommit
  readonly #strong: StrongMode
  readonly #releases: Releases

  constructor(o: KnexOrderBookOptions) {
    this.#database = new Database(o)
    this.#hooks = o.hooks ?? {}
    const database = this.#database
    this.#releases = new Releases(database)
    const onePer = choice(o.onePer, 'onePer', ['activity+sku', 'activity'])
    const stockUpdate = choice(o.stockUpdate, 'stockUpdate', ['conditional', 'optimistic'])
    this.#commits = new GroupCommit({ database, hooks: this.#hooks, onePer, stockUpdate })
    this.#strong = new StrongMode(this.#commits, {
      maxWaiting: check.option(o.maxWaiting, 'maxWaiting', 2_000, 1, 1_000_000),
      maxWaitMs: check.option(o.maxWaitMs, 'maxWaitMs', 3_000, 10, 600_000),
    })
  }

  /** Makes the tables; what is there is left alone. Any number of processes may do so at once. */
  static migrate(knex: Knex, o: { readonly prefix?: string } = {}): Promise<void> {
    return migrate(knex, o.prefix)
  }

  /** The same tables as SQL text, for a DBA; may be run again. */
  static sql(dialect: SchemaDialect, o: { readonly prefix?: string } = {}): string {
    if (!['mysql', 'mariadb', 'pg', 'sqlite'].includes(dialect))
      check.fail('BAD_INPUT', 'dialect', 'mysql, mariadb, pg or sqlite', dialect)
    return schemaSql(dialect, o.prefix)
  }

  /**
   * Throws `BAD_INPUT`, with nothing written, when a row holds another version that has live orders, or the same version
   * with another price, currency, payment window or limit.
   */
  async prepare(activity: Activity): Promise<readonly PreparedNumbers[]> {
    return prepare(this.#database, check.activity(activity))
  }

  /**
   * Confirms in the order given; an order that does not fit is closed as `sold-out`, smaller ones behind it may still
   * fit. Other reasons: `already-bought`, `version-mismatch`, `over-limit`, `no-stock-row`, `veto:…`, `host-error`.
   * At most 10,000. Verdicts come once for each number. An aborted signal stops what has not begun, with `STOPPED`.
   */
  async confirm(
    reservations: readonly Reservation[],
    signal?: AbortSignal,
  ): Promise<readonly Verdict[]> {
    const checked = input.reservations(reservations)
    if (checked.length === 0) return []
    const decisions = await this.#commits.settle(checked, { heldBy: 'redis', signal })
    return decisions.map(verdictOfDecision)
  }

  async closeUnbooked(
    reservations: readonly Reservation[],
    reason: string,
  ): Promise<readonly Verdict[]> {
    const checked = input.reservations(reservations)
    const why = input.reason(reason)
    if (checked.length === 0) return []
    const toClose = new Map(checked.map((r) => [r.orderNo, why]))
    const decisions = await this.#commits.settle(checked, { heldBy: 'redis', toClose })
    return decisions.map(verdictOfDecision)
  }

  async closeUnpaid(orderNos: readonly string[], reason: string): Promise<readonly Verdict[]> {
    const checked = input.orderNos(orderNos)
    const why = input.reason(reason)
    if (checked.length === 0) return []
    return closeUnpaid({ database: this.#database, hooks: this.#hooks }, checked, why)
  }

  /**
   * Waits for the commit of its group (up to 256 calls of one SKU). `closed` is the answer to a veto or a failing hook.
   * Throws `BAD_INPUT` for more units than an order may have, `NOT_WARMED` without a stock row, `DB_BUSY` when too many wait.
   */
  async buy(reservation: Reservation): Promise<Awaited<ReturnType<OrderBook['buy']>>> {
    return this.#strong.buy(check.reservation(reservation))
  }

  async find(orderNos: readonly string[]): Promise<readonly OrderRow[]> {
    return find(this.#database, input.orderNos(orderNos))
  }

  async findByBuyer(ref: SkuRef, userId: string): Promise<OrderRow | null> {
    return findByBuyer(this.#database, check.skuRef(ref), check.userIdOf(userId))
  }

  async numbers(ref: SkuRef): Promise<DbNumbers | null> {
    const { activityId, skuId } = check.skuRef(ref)
    return this.#database.read((on) =>
      readNumbers(on, this.#database.tables, { activityId, skuId }),
    )
  }

  async topUps(ref: SkuRef): Promise<Awaited<ReturnType<OrderBook['topUps']>>> {
    const checked = check.skuRef(ref)
    return this.#database.read((on) => readTopUps(on, this.#database.tables, checked))
  }

  /** Holds one connection of the pool until the loop ends or is left; on SQLite that is the only one. */
  snapshot(ref: SkuRef, after?: string): AsyncGenerator<OrderRow> {
    const checked = check.skuRef(ref)
    return snapshot(this.#database, checked, after && check.id(after, 'after'))
  }

  /** Throws `BAD_INPUT`, with nothing written, without a stock row, for an id used otherwise, or for too many units. */
  async topUp(ref: SkuRef, units: number, operationId: string, audit: Audit): Promise<DbNumbers> {
    const checked = check.skuRef(ref)
    const change = check.int(units, 'units', -check.MAX_UNITS, check.MAX_UNITS)
    if (change === 0) check.fail('BAD_INPUT', 'units', 'not 0', units)
    const id = check.id(operationId, 'operationId')
    return topUp(this.#database, checked, change, id, check.audit(audit))
  }

  /** `limit` 1 to 1,000, `leaseMs` 1 to 3,600,000. A closed order is first offered 15 s after it was closed. */
  async takeReleases(o: {
    readonly limit: number
    readonly leaseMs: number
  }): Promise<readonly OwedRelease[]> {
    check.object(o, 'options')
    const limit = check.int(o.limit, 'limit', 1, 1_000)
    const leaseMs = check.int(o.leaseMs, 'leaseMs', 1, 3_600_000)
    return this.#releases.take({ limit, leaseMs })
  }

  /** `olderThanMs` 0 to 86,400,000, `limit` 1 to 1,000. */
  async owedReleases(
    ref: SkuRef,
    o: { readonly olderThanMs: number; readonly limit: number },
  ): Promise<readonly string[]> {
    const checked = check.skuRef(ref)
    check.object(o, 'options')
    return owedReleases(this.#database, checked, {
      olderThanMs: check.int(o.olderThanMs, 'olderThanMs', 0, 86_400_000),
      limit: check.int(o.limit, 'limit', 1, 1_000),
    })
  }

  async released(orderNos: readonly string[]): Promise<void> {
    await this.#releases.done(input.orderNos(orderNos))
  }

  /** Pauses of 1 s, 5 s, 30 s, 2 min, then 10 min each; after the tenth try parked, with a manual task. */
  async retryReleases(releases: readonly OwedRelease[], why: string): Promise<readonly string[]> {
    const checked = input.releases(releases)
    if (typeof why !== 'string') check.fail('BAD_INPUT', 'why', 'a string', why)
    return this.#releases.retry(checked, why)
  }

  async addManualTask(task: ManualTask): Promise<void> {
    const checked = checkManualTask(task)
    const { manualTask } = this.#database.tables
    await this.#database.write(async (tx) => addManualTask(tx, manualTask, checked, await tx.now()))
  }

  /** Numbers of unpaid orders past their deadline (1 to 10,000), for {@link closeUnpaid}. */
  async overdue(o: { readonly limit: number }): Promise<readonly string[]> {
    check.object(o, 'options')
    return overdue(this.#database, check.int(o.limit, 'limit', 1, input.MAX_ORDERS))
  }
}

function choice<T extends string>(
  value: T | undefined,
  name: string,
  values: readonly [T, ...T[]],
): T {
  if (value === undefined) return values[0]
  if (values.includes(value)) return value
  throw new FlashSaleError(
    'BAD_OPTION',
    `option ${name} must be one of ${values.join(', ')}, got ${check.show(value)}`,
  )
}
