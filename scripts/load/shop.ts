/** The Express example, which at its end says what its layers have refused. */
import { startServer } from '../../examples/express/server.js'

const { port, sale, stop } = await startServer(process.env)
console.log(`listening on ${port}`)
process.once('SIGTERM', () => {
  void stop().then(() => console.log(`refusals ${JSON.stringify(sale.refusals())}`))
})
