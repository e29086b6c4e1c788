import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import type { Scenario, Size } from '../scenario.js'
import type { Stage } from '../stage.js'

/** Slow enough that there is still something to buy when the fault is over. */
const SIZE: Size = { units: 240, buyers: 320, concurrency: 10, pauseMs: 350, outageMs: 4_000 }

const killed: Scenario = {
  name: 'database-killed',
  about: 'the database dies by kill -9 and is started again after 2 s',
  buyerSees:
    '`queued`, after 3 s without a commit `busy`; results stay `queued`, paying has to wait',
  needs: { database: true },
  size: { ...SIZE, outageMs: 2_000 },
  async run(stage) {
    await stage.sold(1 / 6)
    await stage.during(async () => {
      const { server } = stage.database
      await server.kill('SIGKILL')
      await stage.outage()
      await server.restart()
    })
  },
}

const readOnly: Scenario = {
  name: 'database-read-only',
  about:
    'the database reads and does not write (MariaDB read_only, PostgreSQL default_transaction_read_only)',
  buyerSees: '`queued`, after 3 s without a commit `busy`',
  needs: { database: true },
  size: SIZE,
  async run(stage) {
    await stage.sold(1 / 6)
    await stage.during(async () => {
      await readOnlyIs(stage, true)
      await stage.outage()
      await readOnlyIs(stage, false)
    })
  },
}

async function readOnlyIs({ ground, sale: { knex } }: Stage, on: boolean): Promise<void> {
  if (ground.db === 'mariadb') return void (await knex.raw(`SET GLOBAL read_only = ${on ? 1 : 0}`))
  await knex.raw(`ALTER SYSTEM SET default_transaction_read_only = ${on ? 'on' : 'off'}`)
  await knex.raw('SELECT pg_reload_conf()')
}

/** As long as the shops wait for a lock; see `statementTimeoutMs`. */
const LOCK_WAIT_MS = 1_000

const lockWaits: Scenario = {
  name: 'database-lock-waits',
  about: `somebody holds the lock of the stock row longer than the shops wait for it (${LOCK_WAIT_MS} ms), three times`,
  buyerSees: '`queued`, after 3 s without a commit `busy`; confirmed once the lock is free',
  size: SIZE,
  shops: [{ statementTimeoutMs: LOCK_WAIT_MS }, { statementTimeoutMs: LOCK_WAIT_MS }],
  async run(stage) {
    await stage.sold(1 / 6)
    await stage.during(async () => {
      for (let i = 0; i < 3; i++) {
        await stage.sale.knex.transaction(async (trx) => {
          await lockStock(trx)
          await sleep((2_500 * LOCK_WAIT_MS) / 1_000)
        })
        await sleep(200)
      }
    })
  },
}

const lockStock = (trx: Knex.Transaction) =>
  trx('seckill_stock').where({ activity_id: 'a1' }).update({ updated_at: 1 })

const deadlocks: Scenario = {
  name: 'database-deadlocks',
  about:
    'a session takes the stock row first and the orders after it, again and again; the shops do it the other way',
  buyerSees: '`queued`, confirmed later; `busy` while too many wait for a connection',
  needs: { database: true },
  size: SIZE,
  async run(stage) {
    const { knex } = stage.sale
    await knex.schema.createTable('ballast', (t) => t.integer('n'))
    await knex('ballast').insert(Array.from({ length: 500 }, (_, n) => ({ n })))
    await stage.sold(1 / 6)
    const before = await deadlocksOf(stage)
    let own = 0
    await stage.during(async () => {
      const end = performance.now() + stage.size.outageMs
      while (performance.now() < end) {
        await otherWayRound(stage).catch(() => own++)
        await sleep(50)
      }
    })
    const met = (await deadlocksOf(stage)) - before
    stage.figures['deadlocks'] = met
    stage.expect(met > own, 'no deadlock that ended a transaction of the shops')
  },
}

/** Chosen to be rolled back is who has done less (MariaDB), or who looks for the deadlock first (PostgreSQL): the shops. */
function otherWayRound({ ground, sale: { knex } }: Stage): Promise<void> {
  return knex.transaction(async (trx) => {
    if (ground.db === 'postgres') await trx.raw("SET LOCAL deadlock_timeout = '60s'")
    else await trx('ballast').increment('n', 1)
    await lockStock(trx)
    await sleep(50)
    await trx.raw(
      ground.db === 'postgres'
        ? 'LOCK TABLE seckill_order IN SHARE MODE' // as CREATE INDEX does
        : "SELECT order_no FROM seckill_order WHERE activity_id = 'a1' ORDER BY order_no DESC FOR UPDATE",
    )
  })
}

/** Of the whole server since its start. */
async function deadlocksOf({ ground, sale: { knex } }: Stage): Promise<number> {
  if (ground.db === 'mariadb') {
    const [rows] = await knex.raw("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return Number(rows[0].Value)
  }
  await sleep(1_500) // its statistics are told a second late
  const { rows } = await knex.raw('SELECT sum(deadlocks) AS n FROM pg_stat_database')
  return Number(rows[0].n)
}

const slow: Scenario = {
  name: 'database-slow',
  about: 'every answer of the database 300 ms later',
  buyerSees: '`queued`, or `busy` while commits lag behind',
  size: SIZE,
  async run(stage) {
    const { proxy } = stage.database
    await stage.sold(1 / 6)
    await stage.during(async () => {
      proxy.delay(300)
      await stage.outage()
      proxy.pass()
    })
  },
}

const cut: Scenario = {
  name: 'database-cut',
  about:
    'all connections reset and none accepted for 1.5 s; then silence for 7 s, longer than a statement may take',
  buyerSees: '`queued`, then `busy`',
  size: SIZE,
  async run(stage) {
    const { proxy } = stage.database
    await stage.sold(1 / 6)
    await stage.during(() => proxy.cutThenHold())
  },
}

const commitsLost: Scenario = {
  name: 'database-commits-lost',
  about: 'every COMMIT is done and its answer lost with the connection',
  buyerSees: '`queued`; `confirmed` only once the commit was looked up',
  size: SIZE,
  async run(stage) {
    const { proxy } = stage.database
    await stage.sold(1 / 6)
    await stage.during(async () => {
      proxy.swallowReply({ matching: /COMMIT/i, always: true })
      await stage.outage()
      proxy.pass()
    })
    stage.expect(proxy.counts.swallowed > 0, 'no answer to a COMMIT was lost')
  },
}

export const databaseScenarios: readonly Scenario[] = [
  killed,
  readOnly,
  lockWaits,
  deadlocks,
  slow,
  cut,
  commitsLost,
]
