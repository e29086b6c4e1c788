import { Producer } from 'rocketmq-client-nodejs'
import { RocketmqQueue } from '../src/rocketmq/index.js'
import { startRocketmq } from '../test/harness/services.js'
import { batchOf, signal } from '../test/suites/rocketmq.js'
import { loadavg } from 'node:os'
const s = await startRocketmq()
try {
for (const t of ['a','b']) await s.createTopic(t,{type:'FIFO'}); await s.createGroup('g')
const logger={debug(){},info(){},warn(){},error(){},close(){}}
const p=new Producer({endpoints:s.endpoints,namespace:'',logger,requestTimeout:5000,maxAttempts:1}); await p.startup()
const q=new RocketmqQueue({endpoints:s.endpoints,topic:'b',group:'g',sendTimeoutMs:5000,startTimeoutMs:30000,onError:(e)=>console.log('E',String(e))}); await q.start()
const run=async(name:string,ms:number,width:number,one:()=>Promise<boolean>)=>{let n=0,bad=0;const end=performance.now()+ms;const t0=performance.now();await Promise.all(Array.from({length:width},async()=>{while(performance.now()<end){(await one())?n++:bad++}}));const s=(performance.now()-t0)/1000;console.log(name,'x'+width,Math.round(n/s),'/s bad',bad,'load',loadavg()[0]!.toFixed(1));return n}
const single=Buffer.from(JSON.stringify(batchOf(1)))
const raw=async()=>{await p.send({topic:'a',messageGroup:'a s',body:single});return true}
let k=0
const mine=async()=>(await q.send(batchOf(64,'s'+(k++%4)),{signal}))==='accepted'
await run('warm',2000,16,raw); await run('warm',2000,16,mine)
let sent=0
for(let r=0;r<2;r++) for(const w of [4,32]){ await run('client single',4000,w,raw); sent+=await run('queue of 64 ',4000,w,mine) }
let got=0; const t0=performance.now(); let last=t0, hs=0
const c=q.consume(async({batches})=>{got+=batches.length;hs++;last=performance.now();return 'ack'},{maxBatches:32})
const end=performance.now()+12000; while(performance.now()<end&&got<sent) await new Promise(r=>setTimeout(r,50))
console.log('consumed',got,'of',sent,'at',Math.round(got/((last-t0)/1000)),'messages/s; per hand-over',(got/hs).toFixed(1))
await q.stop(); await p.shutdown()
} finally { await s.stop() }
