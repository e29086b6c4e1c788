import { OutboxDispatcher } from 'flash-sale-kit'
import { KnexOutbox } from 'flash-sale-kit/knex'
import { type DatabaseAddress, openDatabase } from '../../harness/databases.js'

/**
 * A dispatcher in a process of its own, whose clock may be wrong. Its handler writes each message into the table `sent`,
 * says so, and with `stay` waits there to be killed, with `fail` throws. Then it says what one round has sent and ends.
 * Arguments: database address (JSON), topic, ms by which the clock is ahead, `stay`, `fail` or `end`.
 */
const [address = '', topic = '', aheadMs = '0', then] = process.argv.slice(2)
const { now } = Date
Date.now = () => now() + Number(aheadMs)

const knex = openDatabase(JSON.parse(address) as DatabaseAddress)
const sent: string[] = []
const dispatcher = new OutboxDispatcher({
  outbox: new KnexOutbox({ knex }),
  leaseMs: 60_000,
  topics: {
    [topic]: async (messages) => {
      for (const { bizNo } of messages) {
        await knex('sent').insert({ biz_no: bizNo })
        sent.push(bizNo)
      }
      process.stdout.write('sent\n')
      if (then === 'stay') await new Promise((resolve) => setTimeout(resolve, 60_000))
      if (then === 'fail') throw new Error('as it was told to')
    },
  },
})
await dispatcher.run()
process.stdout.write(`round ${JSON.stringify(sent)}\n`)
await knex.destroy()
