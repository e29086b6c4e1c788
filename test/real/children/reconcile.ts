import { StockBucket, TriangleReconciler } from 'flash-sale-kit'
import { KnexActivityControl, KnexActivityStore, KnexOrderBook } from 'flash-sale-kit/knex'
import { Redis } from 'ioredis'
import { type DatabaseAddress, openDatabase } from '../../harness/databases.js'

/**
 * Inspects and repairs one activity, and dies as by kill -9 at a call that writes. Arguments: port of Redis, database address
 * (JSON), activity, the call (`move`, `closeUnbooked`, …), and `before`, `sent` or `after`.
 */
const [port = '', database = '', activityId = '', call = '', when = ''] = process.argv.slice(2)
const knex = openDatabase(JSON.parse(database) as DatabaseAddress)
const redis = new Redis({ port: Number(port), host: '127.0.0.1' })
const die = () => process.kill(process.pid, 'SIGKILL')

function faulty<T extends object>(target: T): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        if (name !== call) return value.apply(target, args)
        if (when === 'before') return die()
        const working: unknown = value.apply(target, args)
        // The bytes leave at the end of this turn: dying in the next is dying between the request and its answer.
        if (when === 'sent') setImmediate(() => setImmediate(die))
        await working
        return die()
      }
    },
  })
}

/** Async generators are no calls that write; a proxy's promise would break them. */
const orders = new KnexOrderBook({ knex })
const faultyOrders = faulty(orders)
const reconciler = new TriangleReconciler({
  stock: faulty(new StockBucket({ redis, deliver: 'nothing-owed' })),
  orders: new Proxy(faultyOrders, {
    get: (target, name) =>
      name === 'snapshot' ? orders.snapshot.bind(orders) : Reflect.get(target, name),
  }),
  activities: new KnexActivityStore({ knex }),
  control: new KnexActivityControl({ knex }),
  graceMs: 60_000,
  settleMs: 5,
})
const report = await reconciler.inspect(activityId)
await reconciler.repair(report.findings)
console.log('lived')
redis.disconnect()
await knex.destroy()
