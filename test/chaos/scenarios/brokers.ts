import { setTimeout as sleep } from 'node:timers/promises'
import type { TcpProxy } from '../../harness/tcp-proxy.js'
import { REF } from '../sale.js'
import type { Scenario, ShopKind } from '../scenario.js'
import type { Stage } from '../stage.js'

/** One send in twenty fails: refused, lost, or carried out though it says unknown. */
const SHOP: ShopKind = { role: 'shop', flaky: 0.05 }
/** So slow that they still have work when the last of them is killed. */
const CONSUMER: ShopKind = { role: 'consumer', ordersPerSecond: 150 }
/** Few buyers who take their time, so that most units are sold while the broker is away. */
const SIZE = { units: 600, buyers: 1_200, concurrency: 20, pauseMs: 50 }

export const consumersKilled: Scenario = {
  name: 'consumers-killed',
  about:
    'four times a consumer dies by kill -9 at a random moment and is replaced; 5 % of the sends fail',
  buyerSees: '`queued`, and his result some seconds later; `try-again` for a refused send',
  needs: { queue: 'broker' },
  size: { units: 1_000, buyers: 45_455, concurrency: 100, pauseMs: 0 },
  shops: [SHOP, SHOP, CONSUMER, CONSUMER],
  async run(stage) {
    await stage.during(async () => {
      for (let kill = 0; kill < 4; kill++) {
        await sleep(Math.random() * 800)
        const consumer = stage.shops.find((s) => !s.sells && s.process.isAlive())
        await consumer?.process.kill('SIGKILL')
        await stage.openShop(CONSUMER)
      }
    })
  },
}

/** Meanwhile every click is answered, some are admitted, and what was promised is owed. */
async function outage(
  stage: Stage,
  signal: 'SIGKILL' | 'SIGSTOP',
  mend: () => Promise<void>,
): Promise<void> {
  await stage.sold(1 / 6)
  await stage.during(async () => {
    await stage.broker.kill(signal)
    await stage.outage()
    const { owed } = await stage.sale.stock.numbers(REF)
    stage.expect(owed > 0, 'no batch waits for the broker')
    await mend()
  })
  const during = stage.crowd.asked.filter((a) => a.at >= (stage.fault?.from ?? 0))
  const admitted = during.some((a) => a.status === 'queued' && a.at < (stage.fault?.to ?? 0))
  stage.expect(admitted, 'nobody was admitted without the broker')
}

const killed: Scenario = {
  name: 'broker-killed',
  about: 'the broker dies by kill -9 and is started again after a second; 5 % of the sends fail',
  buyerSees: '`queued`, and his result once the broker is back; after some seconds `busy`',
  needs: { queue: 'broker' },
  size: { ...SIZE, outageMs: 1_000 },
  shops: [SHOP, SHOP, CONSUMER, CONSUMER],
  run: (stage) => outage(stage, 'SIGKILL', () => stage.broker.restart()),
}

const frozen: Scenario = {
  name: 'broker-frozen',
  about: 'the broker stands still (SIGSTOP) for some seconds; 5 % of the sends fail',
  buyerSees: '`queued`, and his result once the broker is back; after some seconds `busy`',
  needs: { queue: 'broker' },
  size: { ...SIZE, outageMs: 20_000 },
  shops: [SHOP, SHOP, CONSUMER, CONSUMER],
  run: (stage) => outage(stage, 'SIGSTOP', () => stage.broker.kill('SIGCONT')),
}

/** The network between shops and broker, while the broker is well. */
function network(
  o: Pick<Scenario, 'name' | 'about' | 'buyerSees'>,
  disturb: (proxy: TcpProxy, stage: Stage) => Promise<void>,
): Scenario {
  return {
    ...o,
    needs: { queue: 'broker' },
    size: { ...SIZE, outageMs: 5_000 },
    shops: [SHOP, SHOP, CONSUMER, CONSUMER],
    async run(stage) {
      const { brokerProxy } = stage
      await stage.sold(1 / 6)
      await stage.during(() => disturb(brokerProxy, stage))
      brokerProxy.pass()
    },
  }
}

const slow = network(
  {
    name: 'broker-slow',
    about: 'every answer of the broker 300 ms later, for some seconds; 5 % of the sends fail',
    buyerSees: '`queued`, later than usual',
  },
  async (proxy, stage) => {
    proxy.delay(300)
    await stage.outage()
  },
)

const cut = network(
  {
    name: 'broker-cut',
    about:
      'all connections to the broker are reset and none accepted for 1.5 s; then silence for 7 s; 5 % of the sends fail',
    buyerSees: '`queued`, and his result afterwards; after some seconds `busy`',
  },
  (proxy) => proxy.cutThenHold(),
)

const repliesLost = network(
  {
    name: 'broker-replies-lost',
    about:
      'every fifth send arrives, and its connection breaks in place of the answer; 5 % of the sends fail',
    buyerSees:
      '`queued`: the batch is sent again, and the row decides which of its messages counts',
  },
  async (proxy, stage) => {
    proxy.swallowReply({ matching: /batchId/, always: true, share: 0.2 })
    await stage.outage()
    stage.expect(proxy.counts.swallowed > 0, 'no reply was lost')
  },
)

export const brokerScenarios: readonly Scenario[] = [
  ...[consumersKilled, killed, frozen],
  ...[slow, cut, repliesLost],
]
