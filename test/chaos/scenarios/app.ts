import { setTimeout as sleep } from 'node:timers/promises'
import type { Scenario, Size } from '../scenario.js'
import type { Shop, Stage } from '../stage.js'
import { type Clicked, figuresOf, Storm } from '../storm.js'

/** Slow enough that the crowd still clicks while the last shop is replaced. */
const SIZE: Size = { units: 240, buyers: 320, concurrency: 10, pauseMs: 350 }

const oldest = ({ shops }: Stage) => shops.find((s) => !s.leaving && s.process.isAlive()) as Shop

/** From SIGTERM to its end: 4.5 s for its requests, 5 s for its stock and queue, 2 s to drain, and room. */
const STOP_WITHIN_MS = 15_000

const sigterm: Scenario = {
  name: 'app-sigterm',
  about: 'four times the oldest shop gets SIGTERM under load and is replaced',
  buyerSees: 'nothing: each request is answered, by that shop or by another',
  size: SIZE,
  async run(stage) {
    await stage.sold(1 / 6)
    let slowest = 0
    await stage.during(async () => {
      for (let i = 0; i < 4; i++) {
        const shop = oldest(stage)
        const since = performance.now()
        shop.leaving = true
        await shop.process.kill('SIGTERM')
        const { code } = await shop.process.exited
        const tookMs = Math.round(performance.now() - since)
        slowest = Math.max(slowest, tookMs)
        stage.expect(code === 0, `a shop ended with ${code}: ${shop.process.output().slice(-300)}`)
        stage.expect(tookMs < STOP_WITHIN_MS, `a shop took ${tookMs} ms to stop`)
        await stage.openShop()
      }
    })
    stage.figures['slowestStopMs'] = slowest
  },
}

const killed: Scenario = {
  name: 'app-killed',
  about: 'four times the oldest shop dies by kill -9, at random moments, and is replaced',
  buyerSees: 'no answer from that shop; whoever clicks again hears his first order number',
  size: SIZE,
  dropsAnswers: true,
  async run(stage) {
    await stage.sold(1 / 6)
    await stage.during(async () => {
      for (let i = 0; i < 4; i++) {
        await sleep(Math.random() * 800)
        await oldest(stage).process.kill('SIGKILL')
        await stage.openShop()
      }
    })
  },
}

const CLOCK_MS = 10_000

const clocks: Scenario = {
  name: 'app-clocks',
  about: `one shop's clock is ${CLOCK_MS / 1_000} s ahead of Redis and database, the other's as much behind, over an opening and an end`,
  buyerSees:
    '`not-open` and `ended` by Redis; of the slow shop `not-open` for 5 s more, of the fast one `ended` 5 s too early',
  size: { units: 400, buyers: 600, concurrency: 10, pauseMs: 350, payWithinMs: 3_000 },
  shops: [{ clockMs: CLOCK_MS }, { clockMs: -CLOCK_MS }],
  window: { opensInMs: 3_000, endsInMs: 20_000 },
  async run(stage) {
    const { crowd, figures, sale } = stage
    const { opensAt, endsAt } = sale.terms
    const till = (instant: number) => sleep(Math.max(0, instant - Date.now()))
    const offset = Date.now() - performance.now()
    // Until by its own clock the slow shop has opened too: the gate believes its process for 5 s at most.
    await stage.during(() => till(opensAt + CLOCK_MS - 4_000))
    await till(endsAt + 1_000)
    const clicks = crowd.asked.filter((a) => a.what === 'click')
    const admitted = clicks.filter((a) => a.status === 'queued' && !a.replayed)
    const early = admitted.filter((a) => a.at + a.tookMs + offset < opensAt - 50)
    stage.expect(early.length === 0, `${early.length} were admitted before the opening`)
    const late = admitted.filter((a) => a.at + offset > endsAt + 50)
    stage.expect(late.length === 0, `${late.length} were admitted after the end`)
    const tokens = clicks.filter((a) => a.status.startsWith('token'))
    stage.expect(tokens.length === 0, `${tokens.length} good tokens were refused`)
    figures['admitted'] = admitted.length
    const first = Math.min(...admitted.map((a) => a.at + a.tookMs)) + offset
    figures['firstAdmittedMs'] = Math.round(first - opensAt)
    await sleep(stage.size.payWithinMs + 1_000)
    const tooSoon = await sale
      .knex('seckill_order')
      .where({ status: 'CLOSED', reason: 'unpaid' })
      .whereRaw('updated_at < pay_by')
    stage.expect(tooSoon.length === 0, `${tooSoon.length} orders were closed before their deadline`)
  },
}

/** What an overloaded shop may say: a decision, or `UNDECIDED`, after which the page looks again. */
const HONEST: ReadonlySet<string> = new Set([
  'queued',
  'busy',
  'rate-limit',
  'unknown',
  'unavailable',
])
const UNDECIDED: ReadonlySet<string> = new Set(['unknown', 'unavailable'])

const overload: Scenario = {
  name: 'app-overload',
  about:
    'capacity is measured, the limiter set to 80 % of it (the design load), and then twice the design load comes for 6 s',
  buyerSees: '`rate-limited`, `busy`, or his order; an answer in any case',
  size: { units: 60_000, buyers: 250, concurrency: 4, pauseMs: 200 },
  async run(stage) {
    const { figures } = stage
    const ports = () => stage.selling().map((s) => s.port)
    const storm = new Storm(ports, (no, user) => stage.crowd.told.set(no, user))
    try {
      const capacity = await storm.asFastAsAnswered(32, 4_000)
      const design = Math.max(10, Math.round(capacity * 0.8))
      await replaceAll(stage, design)
      const before = await storm.atRate(design / 2, 3_000)
      let clicked: readonly Clicked[] = []
      await stage.during(async () => {
        clicked = await storm.atRate(design * 2, 6_000)
      })
      const end = performance.now()
      const after = await storm.atRate(design / 2, 4_000)
      Object.assign(figures, { capacityPerSecond: capacity, designPerSecond: design })
      note(figures, 'half', before)
      note(figures, 'twice', clicked)
      note(figures, 'after', after)
      const strange = clicked.filter((c) => !HONEST.has(c.status))
      stage.expect(strange.length === 0, `told ${[...new Set(strange.map((c) => c.status))]}`)
      const undecided = clicked.filter((c) => UNDECIDED.has(c.status)).length
      figures['twiceUndecided'] = undecided
      stage.expect(undecided <= clicked.length / 5, `${undecided} of ${clicked.length} undecided`)
      const bought = after.filter((c) => c.status === 'queued')
      stage.recoveredAt = Math.min(...bought.map((c) => c.answeredAt))
      const refused = after.filter((c) => c.status !== 'queued')
      figures['lastRefusedMs'] = Math.round(Math.max(0, ...refused.map((c) => c.answeredAt - end)))
    } finally {
      storm.close()
    }
  },
}

/** As by a deployment that sets the limit: others first, then the old ones go. */
async function replaceAll(stage: Stage, submitPerSecond: number): Promise<void> {
  const old = stage.selling()
  await Promise.all(old.map(() => stage.openShop({ submitPerSecond })))
  for (const shop of old) shop.leaving = true
  await Promise.all(old.map((shop) => shop.process.kill('SIGTERM')))
}

function note(figures: Record<string, number>, when: string, clicked: readonly Clicked[]): void {
  for (const [name, value] of Object.entries(figuresOf(clicked)))
    figures[`${when}${name[0]?.toUpperCase()}${name.slice(1)}`] = value
}

export const appScenarios: readonly Scenario[] = [sigterm, killed, clocks, overload]
