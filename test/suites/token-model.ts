import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { tokenKey, tokenOwnerKey } from '../../src/redis/keys.js'
import { ScriptRunner } from '../../src/redis/run-script.js'
import { issueToken, readToken, revokeToken } from '../../src/redis/scripts.generated.js'
import type { StockBucket } from '../../src/stock/stock-bucket.js'
import { act, agree, moveCommand, type SaleCommand, users, word } from './stock-bucket/commands.js'
import { SaleModel, type TokenRules } from './stock-bucket/model.js'
import { candidateOf, sku, World } from './stock-bucket/world.js'

type Command =
  | SaleCommand
  /** One script of a client that wants a token for a buyer on a device; he asks until he has one. */
  | {
      readonly do: 'ask'
      readonly client: number
      readonly userId: string
      readonly device: string
    }
  | { readonly do: 'read' | 'revoke' | 'lose'; readonly token: number }
  /** With one of the tokens there ever were, whoever's it is; issued under `issue` where it is a signed one. */
  | {
      readonly do: 'use'
      readonly userId: string
      readonly no: string
      readonly token: number | null
      readonly issue: number
      readonly stored: boolean
    }
  | { readonly do: 'raise'; readonly epoch: number }

const one = fc.integer({ min: 0, max: 5 })
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      client: fc.constantFrom(0, 1, 2),
      userId: fc.constantFrom('u1', 'u2'),
      device: fc.constantFrom('d1', 'd2'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('read' as const, 'revoke', 'lose'), token: one }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ do: fc.constant('use' as const), userId: users, no: fc.constantFrom('a', 'b') },
      token: fc.option(one, { freq: 4 }),
      issue: fc.constantFrom(1, 2, 3),
      stored: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: moveCommand },
  {
    weight: 1,
    arbitrary: fc.constantFrom(1, 2, 3).map((epoch): Command => ({ do: 'raise', epoch })),
  },
)

/** A buyer has one live stored token at most, and no unit goes without a token that is good in that very step. */
export function tokenModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`T1 T4 C07 tokens issued, read, revoked and used in any order (${engine} Redis)`, async () => {
    const commands = fc.array(command, { minLength: 1, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(commands, fc.constantFrom('required', 'off'), async (all, tokens) => {
        const world = new World(await open(), engine)
        const stock = await world.sale({ skus: [sku(6)], tokens })
        const run = new Run(world, stock, tokens === 'required')
        for (const c of all) await run.step(c)
        await run.agree()
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

/** A client on its way to a token: what it would issue, and which one it has been told the buyer holds. */
interface Asking {
  readonly userId: string
  readonly tokenId: string
  readonly binding: string
  heldId: string
}

class Run {
  /** By token: whom it is for. By buyer: which one he holds. */
  private readonly bindings = new Map<string, string>()
  private readonly holds = new Map<string, string>()
  /** All that were ever asked for. */
  private readonly ids: string[] = []
  private readonly clients = new Map<number, Asking>()
  private readonly model = new SaleModel(6, 5, 5_000)
  private readonly runner: ScriptRunner
  private readonly rules: TokenRules

  constructor(
    private readonly world: World,
    private readonly stock: StockBucket,
    required: boolean,
  ) {
    this.runner = new ScriptRunner(world.redis, 5_000)
    this.rules = { required, epoch: 1, known: (id) => this.bindings.has(id) }
    this.model.tokens = this.rules
  }

  async step(c: Command): Promise<void> {
    const { bindings, holds, model, runner, stock, world } = this
    switch (c.do) {
      case 'ask':
        await this.ask(c)
        break
      case 'read': {
        const id = this.idOf(c.token)
        const binding = bindings.get(id)
        const told = await runner.run(readToken, { token: tokenKey('a1', id) }, {})
        expect(told).toEqual(binding ? [1, binding] : [0])
        break
      }
      case 'revoke': {
        const id = this.idOf(c.token)
        const binding = bindings.get(id)
        const userId = binding?.split('|')[0] ?? 'u1'
        const keys = { token: tokenKey('a1', id), owner: tokenOwnerKey('a1', userId) }
        expect(await runner.run(revokeToken, keys, { tokenId: id })).toEqual([binding ? 1 : 0])
        bindings.delete(id)
        if (holds.get(userId) === id) holds.delete(userId)
        break
      }
      case 'lose': {
        const id = this.idOf(c.token)
        await world.redis.del(tokenKey('a1', id))
        bindings.delete(id)
        break
      }
      case 'use': {
        const tokenId = c.token === null ? '' : this.idOf(c.token)
        const asked = { userId: c.userId, orderNo: c.userId + c.no, quantity: 1 }
        const token = { tokenId, issue: c.issue, ...(c.stored ? { stored: true as const } : {}) }
        const candidate = candidateOf(asked, { token: tokenId ? token : undefined })
        const told = await world.script([candidate])
        const ask = { ...asked, token: tokenId, issue: c.issue, stored: c.stored }
        expect(told.map(word)).toEqual(model.deduct([ask]))
        break
      }
      case 'raise':
        await stock.revokeTokens('a1', c.epoch)
        this.rules.epoch = Math.max(this.rules.epoch, c.epoch)
        break
      default:
        await act(c, { world, stock, model })
    }
  }

  private async ask(c: Extract<Command, { do: 'ask' }>): Promise<void> {
    const { bindings, clients, holds, runner } = this
    const binding = `${c.userId}|${c.device}|1|1790000000000`
    const asking = clients.get(c.client) ?? {
      userId: c.userId,
      tokenId: this.next(),
      binding,
      heldId: '',
    }
    const { userId, tokenId, heldId } = asking
    const token = tokenKey('a1', tokenId)
    const keys = {
      ...{ owner: tokenOwnerKey('a1', userId), token },
      held: heldId ? tokenKey('a1', heldId) : token,
    }
    const keepUntil = Date.now() + 3_600_000
    const reply = await runner.run(issueToken, keys, { ...asking, keepUntil })
    const holding = holds.get(userId)
    if (holding && holding !== heldId) {
      expect(reply).toEqual([0, holding])
      clients.set(c.client, { ...asking, heldId: holding })
      return
    }
    clients.delete(c.client)
    const kept = heldId !== '' && bindings.get(heldId) === asking.binding
    expect(reply).toEqual([1, kept ? heldId : tokenId])
    if (kept) return
    bindings.delete(heldId)
    bindings.set(tokenId, asking.binding)
    holds.set(userId, tokenId)
  }

  async agree(): Promise<void> {
    const { bindings, holds, model, stock, world } = this
    const found = new Map<string, string>()
    const all = await world.redis.keys('seckill:token:*')
    for (const key of all) {
      found.set(key, (await world.redis.get(key)) ?? '')
      expect(await world.redis.pttl(key)).toBeGreaterThan(3_000_000)
    }
    const owners = [...holds].map(([userId, id]) => [tokenOwnerKey('a1', userId), id] as const)
    const tokens = [...bindings].map(([id, binding]) => [tokenKey('a1', id), binding] as const)
    expect(found).toEqual(new Map([...owners, ...tokens]))
    for (const userId of ['u1', 'u2']) {
      const live = [...bindings.values()].filter((b) => b.startsWith(`${userId}|`))
      expect(live.length).toBeLessThanOrEqual(1)
    }
    await agree(world, stock, model)
  }

  private next(): string {
    this.ids.push(`t${this.ids.length}`)
    return this.ids.at(-1) as string
  }

  private idOf(index: number): string {
    return this.ids[index % Math.max(1, this.ids.length)] ?? 'none'
  }
}
