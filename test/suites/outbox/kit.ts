import type { Json, LeasedMessage, OutboxMessage } from 'flash-sale-kit'
import { KnexOrderBook, KnexOutbox } from 'flash-sale-kit/knex'
import type { Knex } from 'knex'
import { afterAll, beforeAll, expect } from 'vitest'
import { type DatabaseKind, type FreshDatabase, freshDatabase } from '../../harness/databases.js'

export const AUDIT = { actor: 'op', reason: 'the broker is back' } as const

export interface MessageRow {
  readonly id: number
  readonly biz_no: string
  readonly status: number
  readonly retry_count: number
  readonly next_retry_time: number
  readonly lease: string | null
}

let topics = 0

/** One database for a describe block; each test takes a topic of its own. */
export function useOutbox(kind: DatabaseKind) {
  let db: FreshDatabase | undefined
  let shared: KnexOutbox | undefined
  const there = () => {
    if (!db || !shared) throw new Error('the database is there once the tests run')
    return { db, outbox: shared }
  }
  beforeAll(async () => {
    db = await freshDatabase(kind)
    await KnexOrderBook.migrate(db.knex)
    shared = new KnexOutbox({ knex: db.knex })
  })
  afterAll(() => db?.destroy())
  return {
    get db() {
      return there().db
    },
    get knex() {
      return there().db.knex
    },
    get outbox() {
      return there().outbox
    },
    topic: () => new Topic(there().db.knex, there().outbox, `topic-${++topics}`),
  }
}

export class Topic {
  constructor(
    readonly knex: Knex,
    readonly outbox: KnexOutbox,
    readonly name: string,
  ) {}

  message(n: number | string, payload: Json = { n }): OutboxMessage {
    return { bizNo: `${this.name}:${n}`, topic: this.name, payload }
  }

  /** Adds 1 … count, committed. */
  async add(count: number): Promise<void> {
    await this.knex.transaction(async (trx) => {
      for (let n = 1; n <= count; n++) await this.outbox.add(trx, this.message(n))
    })
  }

  take(o: { readonly limit?: number; readonly leaseMs?: number } = {}, outbox = this.outbox) {
    return outbox.take({ topic: this.name, limit: 100, leaseMs: 60_000, ...o })
  }

  /** Its rows in the order they were written, every number as a number. */
  async rows(): Promise<readonly MessageRow[]> {
    const rows = await this.knex('local_message').where({ topic: this.name }).orderBy('id')
    return rows.map((row) => ({
      ...row,
      id: Number(row.id),
      status: Number(row.status),
      retry_count: Number(row.retry_count),
      next_retry_time: Number(row.next_retry_time),
    }))
  }

  async row(n = 1): Promise<MessageRow> {
    const row = (await this.rows()).find((r) => r.biz_no === `${this.name}:${n}`)
    if (!row) throw new Error(`no row of ${this.name}:${n}`)
    return row
  }

  /** How many rows have each status. */
  async statuses(): Promise<Record<number, number>> {
    const counts: Record<number, number> = {}
    for (const { status } of await this.rows()) counts[status] = (counts[status] ?? 0) + 1
    return counts
  }

  /** Leases and pauses that have not ended yet end now. */
  async due(): Promise<void> {
    await this.knex('local_message')
      .where({ topic: this.name, status: 0 })
      .update({ next_retry_time: 1 })
  }

  tasks() {
    return this.knex('seckill_manual_task')
      .where({ kind: 'outbox-parked' })
      .andWhere('ref', 'like', `${this.name}:%`)
  }
}

export const failed = (messages: readonly LeasedMessage[], error = 'no') =>
  messages.map((message) => ({ message, error }))

export const numbers = (messages: readonly { readonly bizNo: string }[]) =>
  messages.map((m) => m.bizNo)

/** Takers at once until nothing is due: each of the messages was given to one of them, once. */
export async function takeAll(
  topic: Topic,
  outboxes: readonly KnexOutbox[],
  o: { readonly takers: number; readonly count: number },
): Promise<void> {
  const taken = await Promise.all(
    Array.from({ length: o.takers }, async (_, i) => {
      const mine: string[] = []
      // Passing over what others have locked may find nothing although there is more: whoever is last finds all.
      for (let empty = 0; empty < 3; ) {
        const some = numbers(await topic.take({ limit: 7 }, outboxes[i % outboxes.length]))
        mine.push(...some)
        if (some.length === 0) empty++
      }
      return mine
    }),
  )
  expect(taken.flat()).toHaveLength(o.count)
  expect(new Set(taken.flat()).size).toBe(o.count)
  expect((await topic.rows()).every((row) => row.retry_count === 1)).toBe(true)
}

/** The database's clock, epoch ms. */
export async function databaseNow(knex: Knex, kind: DatabaseKind): Promise<number> {
  const sql = {
    sqlite: "SELECT (julianday('now') - 2440587.5) * 86400000 AS now_ms",
    postgres: 'SELECT extract(epoch from clock_timestamp()) * 1000 AS now_ms',
    mysql: 'SELECT UNIX_TIMESTAMP(NOW(6)) * 1000 AS now_ms',
    mariadb: 'SELECT UNIX_TIMESTAMP(NOW(6)) * 1000 AS now_ms',
  }[kind]
  const answer = await knex.raw(sql)
  const [row] = kind === 'sqlite' ? answer : kind === 'postgres' ? answer.rows : answer[0]
  return Number(row.now_ms)
}
