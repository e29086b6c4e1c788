import { startKafka } from '../test/harness/services.js'
import { Topic, batchOf, collect, sleep, signal } from '../test/suites/kafka.js'
const server = await startKafka({ config: { 'group.min.session.timeout.ms': '500' } })
try {
const topic = await Topic.on(server)
const a = await topic.open({onError: e=>console.log('A', e)}), b = await topic.open({onError: e=>console.log('B', e)})
const slowly = () => sleep(10).then(() => 'ack' as const)
const one = collect(a, slowly, 2), two = collect(b, slowly, 2)
for (let i=0;i<24;i++) await a.send(batchOf(), {signal})
for (let i=0;i<8;i++) { await sleep(1000); console.log(one.ids().length, two.ids().length, await topic.committed(), await a.lag()) }
await topic.close()
} finally { await server.stop() }
