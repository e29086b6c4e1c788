import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KnexOrderBook } from '../../src/knex/index.js'
import { openDatabase } from '../harness/databases.js'
import { inParallel, tally, useKit } from '../suites/order-book/kit.js'

describe('SQLite shared with another process', () => {
  const kit = useKit('sqlite')
  const filename = () => {
    if (kit.db.address.kind !== 'sqlite') throw new Error('not SQLite')
    return kit.db.address.filename
  }

  // libsql leaves a statement that met a locked file unfinished until it is collected, and nothing commits on its
  // connection before that. better-sqlite3, which it stands in for, resets it at once.
  let collecting: NodeJS.Timeout
  beforeAll(() => {
    setFlagsFromString('--expose-gc')
    collecting = setInterval(runInNewContext('gc') as () => void, 20)
  })
  afterAll(() => clearInterval(collecting))

  it('C16: SQLITE_BUSY repeats the whole unit until the file is free', async () => {
    const sale = await kit.sale()
    const other = new Database(filename())
    other.exec('BEGIN IMMEDIATE')
    setTimeout(() => other.exec('COMMIT'), 150)
    const book = kit.book({ maxAttempts: 50 })
    expect(tally(await book.confirm(sale.reservations(3)))).toEqual({ confirmed: 3 })
    other.close()
  })

  it('C16: a file that stays locked is DB_BUSY, nothing is written, and the connection is clean', async () => {
    const sale = await kit.sale()
    const other = new Database(filename())
    other.exec('BEGIN IMMEDIATE')
    const orders = sale.reservations(3)
    await expect(kit.book({ maxAttempts: 3 }).confirm(orders)).rejects.toMatchObject({
      code: 'DB_BUSY',
    })
    other.exec('ROLLBACK')
    other.close()
    expect(await kit.rows(sale)).toEqual([])
    expect(tally(await kit.book().confirm(orders))).toEqual({ confirmed: 3 })
  })

  it('C16: a COMMIT refused because somebody reads leaves no transaction open', async () => {
    const sale = await kit.sale()
    const other = new Database(filename())
    other.exec('BEGIN')
    other.prepare('SELECT COUNT(*) FROM seckill_order').all()
    const orders = sale.reservations(3)
    await expect(kit.book({ maxAttempts: 2 }).confirm(orders)).rejects.toMatchObject({
      code: 'DB_BUSY',
    })
    other.exec('ROLLBACK')
    other.close()
    expect(tally(await kit.book().confirm(orders))).toEqual({ confirmed: 3 })
  })

  it('D1: two pools on one file sell exactly the stock', async () => {
    const sale = await kit.sale({ units: 20 })
    const second = openDatabase(kit.db.address)
    const books = [
      kit.book({ maxAttempts: 200 }),
      new KnexOrderBook({ knex: second, maxAttempts: 200 }),
    ]
    const batches = Array.from({ length: 12 }, () => sale.reservations(3))
    let i = 0
    const verdicts = await inParallel(6, batches, (batch) =>
      (books[i++ % 2] as KnexOrderBook).confirm(batch),
    )
    await second.destroy()
    expect(tally(verdicts.flat())).toEqual({ confirmed: 20, 'closed sold-out': 16 })
  })
})
