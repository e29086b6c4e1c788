import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { queueKeys } from '../../src/redis/keys.js'
import { ScriptRunner } from '../../src/redis/run-script.js'
import {
  queueLag,
  queueLeave,
  queueRenew,
  queueSend,
  queueSettle,
  queueTake,
} from '../../src/redis/scripts.generated.js'

/** Far longer than a run takes: what passes by the server's own clock meanwhile does not matter. */
const CLAIM_MS = 10_000_000
const MAX_MESSAGES = 5
const GROUP = 'workers'

type Ending = 'ack' | 'back' | 'retry' | 'dead'
type Command =
  | { readonly do: 'send' | 'lag' | 'flush' }
  | {
      readonly do: 'take'
      readonly by: string
      readonly limit: number
      readonly from: 'start' | 'cursor' | 'no look'
    }
  /** `messages` are among those that were ever handed out, whoever holds them now. */
  | {
      readonly do: 'settle'
      readonly by: string
      readonly what: Ending
      readonly messages: readonly number[]
    }
  | { readonly do: 'renew'; readonly by: string; readonly messages: readonly number[] }
  | { readonly do: 'leave'; readonly by: string }
  | { readonly do: 'wait'; readonly ms: number }

const by = fc.constantFrom('c1', 'c2')
const messages = fc.uniqueArray(fc.nat({ max: 4 }), { minLength: 1, maxLength: 3 })
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 12, arbitrary: fc.constant<Command>({ do: 'send' }) },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ do: fc.constant('take' as const), by, limit: fc.constantFrom(0, 1, 2, 3) },
      from: fc.constantFrom(
        'start' as const,
        'start' as const,
        'cursor' as const,
        'no look' as const,
      ),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ do: fc.constant('settle' as const), by, messages },
      what: fc.constantFrom<Ending[]>('ack', 'back', 'retry', 'dead'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('renew' as const), by, messages }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('leave' as const), by }) },
  { weight: 1, arbitrary: fc.constant<Command>({ do: 'lag' }) },
  { weight: 1, arbitrary: fc.constant<Command>({ do: 'flush' }) },
  {
    weight: 5,
    arbitrary: fc.constantFrom(CLAIM_MS / 2, CLAIM_MS).map((ms): Command => ({ do: 'wait', ms })),
  },
)
const RETRY_MS = CLAIM_MS / 2

interface Message {
  readonly text: string
  owner: string | null
  /** Since its owner was last heard of it. */
  idle: number
  times: number
  /** The `times` its holder was told. */
  told: number
}

/** A queue as its users see it: who holds what, and who is next. */
class Model {
  messages: Message[] = []
  dead: string[] = []

  get held(): Message[] {
    return this.messages.filter((m) => m.owner !== null)
  }

  of(text: string): Message | undefined {
    return this.messages.find((m) => m.text === text)
  }

  /** First what its owner has been silent about, from one message on; then new ones. */
  take(by: string, limit: number, from: string | null) {
    const taken: Message[] = []
    let next = ''
    const looked = from === null ? [] : this.held.filter((m) => m.text >= from)
    for (const m of looked) {
      if (taken.length === limit) {
        next = m.text
        break
      }
      if (m.idle >= CLAIM_MS) taken.push(m)
    }
    const fresh = this.messages.filter((m) => m.owner === null)
    taken.push(...fresh.slice(0, limit - taken.length))
    for (const m of taken)
      Object.assign(m, { owner: by, idle: 0, times: m.times + 1, told: m.times + 1 })
    return { taken: taken.map((m) => `${m.text} ${m.times}`), next }
  }

  /** True when it lies, or lay before, in the dead stream. */
  settle(by: string, text: string, what: Ending): boolean {
    const m = this.of(text)
    if (what === 'ack') this.drop(text)
    else if (m?.owner === by) {
      if (what === 'back') {
        // Once, however often it is said.
        if (m.times === m.told) Object.assign(m, { idle: CLAIM_MS, times: m.times - 1 })
      } else if (what === 'retry') m.idle = CLAIM_MS - RETRY_MS
      else {
        this.drop(text)
        this.dead.push(text)
      }
    } else return what === 'dead' && !m
    return what === 'dead'
  }

  private drop(text: string): void {
    this.messages = this.messages.filter((m) => m.text !== text)
  }
}

/** Consumers that crash, come late and take over: no message is lost, and each has one holder at a time. */
export function streamModel(open: () => Promise<Redis>, o: { readonly runs: number }): void {
  it('Q2 Q3 a stream hands out, takes back and counts as the model says', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 40 }), async (commands) => {
        const run = new Run(await open())
        for (const c of commands) await run.step(c)
        await run.agree()
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

class Run {
  private readonly model = new Model()
  private readonly runner: ScriptRunner
  private readonly keys = queueKeys('model')
  /** Text and id of all that was ever handed out, in order of the first time. */
  private readonly ids = new Map<string, string>()
  private cursor = ''
  private sent = 0

  constructor(private readonly redis: Redis) {
    this.runner = new ScriptRunner(redis, 5_000)
  }

  async step(c: Command): Promise<void> {
    const { keys, model, runner } = this
    switch (c.do) {
      case 'send': {
        const message = `m${String(this.sent++).padStart(3, '0')}`
        const room = model.messages.length < MAX_MESSAGES
        const args = { message, maxMessages: MAX_MESSAGES }
        expect(await runner.run(queueSend, keys, args)).toEqual([room ? 1 : 0])
        if (room) model.messages.push({ text: message, owner: null, idle: 0, times: 0, told: 0 })
        break
      }
      case 'take':
        await this.take(c)
        break
      case 'settle': {
        const texts = this.known(c.messages)
        const args = texts.flatMap((t) => [
          this.idOf(t),
          c.what,
          c.what === 'retry'
            ? String(RETRY_MS)
            : c.what === 'back'
              ? String(model.of(t)?.told ?? 0)
              : 'x',
        ])
        const named = { consumer: c.by, claimAfterMs: CLAIM_MS }
        const [code, ...told] = await runner.run(queueSettle, keys, named, { args })
        expect(code).toBe(1)
        const dead = texts.filter((t) => model.settle(c.by, t, c.what))
        expect(told).toEqual(dead.map((t) => this.idOf(t)))
        break
      }
      case 'renew': {
        const texts = this.known(c.messages)
        const more = { args: texts.map((t) => this.idOf(t)) }
        const mine = texts.flatMap((t) => model.of(t) ?? []).filter((m) => m.owner === c.by)
        const told = await runner.run(queueRenew, keys, { consumer: c.by }, more)
        expect(told).toEqual([1, mine.length])
        for (const m of mine) m.idle = 0
        break
      }
      case 'leave':
        await runner.run(queueLeave, keys, { consumer: c.by })
        if (!model.held.some((m) => m.owner === c.by))
          expect(await this.consumers()).not.toContain(c.by)
        break
      case 'lag': {
        const [, count, age] = await runner.run(queueLag, keys, {})
        expect(count).toBe(model.messages.length)
        expect(age === '').toBe(count === 0)
        if (age !== '') expect(Number(age)).toBeLessThan(60_000)
        break
      }
      case 'flush':
        await this.redis.flushall()
        await sleep(2) // a new stream gives out the ids of this millisecond once more
        Object.assign(model, { messages: [], dead: [] })
        break
      case 'wait':
        await this.wait(c.ms)
        break
      default:
        c satisfies never
    }
  }

  private async take(c: Extract<Command, { do: 'take' }>): Promise<void> {
    const { keys, model, runner } = this
    const from = c.from === 'no look' ? null : c.from === 'start' ? '' : this.cursor
    const cursor = from === null ? '' : from === '' ? '-' : this.idOf(from)
    const args = { consumer: c.by, limit: c.limit, claimAfterMs: CLAIM_MS, cursor }
    const [code, next, ...rest] = await runner.run(queueTake, keys, args)
    expect(code).toBe(1)
    const told: string[] = []
    for (let i = 0; i < rest.length; i += 3) {
      const [id, attempt, text] = rest.slice(i, i + 3).map(String) as [string, string, string]
      expect(this.ids.get(text) ?? id).toBe(id)
      this.ids.set(text, id)
      told.push(`${text} ${attempt}`)
    }
    const expected = model.take(c.by, c.limit, c.limit === 0 ? null : from)
    expect(told).toEqual(expected.taken)
    expect(next).toBe(expected.next && this.idOf(expected.next))
    this.cursor = expected.next
  }

  /** The server's clock cannot be set; how long an owner has been silent can. */
  private async wait(ms: number): Promise<void> {
    for (const [id, owner, idle, times] of await this.pending())
      await this.redis.xclaim(
        ...[this.keys.stream, GROUP, owner, 0, id],
        ...['IDLE', idle + ms, 'RETRYCOUNT', times, 'JUSTID'],
      )
    for (const m of this.model.messages) m.idle += ms
  }

  async agree(): Promise<void> {
    const { model, redis, keys } = this
    expect(await redis.xlen(keys.stream)).toBe(model.messages.length)
    const held = await this.pending()
    expect(held.map(([id, owner, , times]) => `${id} ${owner} ${times}`)).toEqual(
      model.held.map((m) => `${this.idOf(m.text)} ${m.owner} ${m.times}`),
    )
    for (const [i, m] of model.held.entries()) {
      const idle = held[i]?.[2] ?? 0
      expect(idle - m.idle).toBeGreaterThanOrEqual(0)
      expect(idle - m.idle).toBeLessThan(600_000)
    }
    const dead = await redis.xrange(keys.dead, '-', '+')
    expect(dead.map(([, fields]) => fields.at(-1))).toEqual(model.dead)
  }

  private async pending(): Promise<[id: string, owner: string, idle: number, times: number][]> {
    const found = await this.redis
      .xpending(this.keys.stream, GROUP, '-', '+', 100)
      .catch(() => [] as unknown[])
    return found as [string, string, number, number][]
  }

  private async consumers(): Promise<unknown[]> {
    const rows = await this.redis.xinfo('CONSUMERS', this.keys.stream, GROUP).catch(() => [])
    return (rows as unknown[][]).map((row) => row[1])
  }

  private known(indexes: readonly number[]): string[] {
    const texts = [...this.ids.keys()].slice(-5)
    return indexes.flatMap((i) => texts[i] ?? [])
  }

  private idOf(text: string): string {
    return this.ids.get(text) ?? text
  }
}
