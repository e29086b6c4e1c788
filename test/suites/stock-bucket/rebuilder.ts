import { type RebuildKeys, rebuildKeys } from '../../../src/redis/keys.js'
import { type ScriptReply, ScriptRunner } from '../../../src/redis/run-script.js'
import {
  rebuildStage,
  rebuildStageTopUps,
  rebuildSwap,
} from '../../../src/redis/scripts.generated.js'
import { look } from '../../../src/stock/rebuild-look.js'
import { saleTerms } from '../../../src/stock/warm-up.js'
import type { Collected, Row } from './tag-model.js'
import { doneKey, KEYS, stockKey, type World } from './world.js'

export const OPERATIONS: readonly (readonly [id: string, units: string])[] = [
  ['p', '2'],
  ['q', '-1'],
]
const KEEP = { keepMs: 600_000 }
let rebuilders = 0

/** One who rebuilds, a script at a time, so that anything may happen between two of them. */
export class Rebuilder {
  readonly keys: RebuildKeys
  readonly staged: Row[] = []
  operations: readonly string[] = []
  /** Something collected is not in Redis any more. */
  lost = false
  private readonly runner: ScriptRunner
  private readonly id = `r${++rebuilders}`
  private fields = { done: 0, stock: 0 }

  private constructor(
    private readonly world: World,
    private readonly seenEpoch: number,
  ) {
    this.keys = rebuildKeys('a1', this.id)
    this.runner = new ScriptRunner(world.redis, 5_000)
  }

  static async begin(world: World): Promise<Rebuilder> {
    const { epoch } = await look(new ScriptRunner(world.redis, 5_000), world.activity)
    const made = new Rebuilder(world, epoch)
    // Each key is written at least once, however little there is.
    await made.topUps([])
    await made.stage([], 1)
    return made
  }

  /** `times` 2: no answer came to the first. */
  async stage(rows: readonly Row[], times: number): Promise<ScriptReply> {
    const args = { ...KEEP, had: this.fields.done, count: rows.length }
    const more = { args: rows.flatMap(argsOf) }
    const place = { released: this.keys.released, done: this.keys.done('s1') }
    let reply: ScriptReply = [0]
    for (let i = 0; i < times; i++) reply = await this.runner.run(rebuildStage, place, args, more)
    this.staged.push(...rows)
    this.fields.done = Number(reply[1])
    return reply
  }

  async topUps(operations = OPERATIONS): Promise<ScriptReply> {
    const args = { ...KEEP, had: this.fields.stock, count: operations.length }
    const place = { stock: this.keys.stock('s1') }
    const reply = await this.runner.run(rebuildStageTopUps, place, args, {
      args: operations.flat(),
    })
    this.fields.stock = Number(reply[1])
    this.operations = operations.map(([id]) => id)
    return reply
  }

  collected(o: { readonly above: number; readonly revision: number }): Collected {
    const { activity } = this.world
    const { version, maxPerOrder, skus } = activity
    const { seenEpoch, operations, staged: rows } = this
    const units = skus[0]?.units ?? 0
    return { version, maxPerOrder, units, seenEpoch, operations, rows, ...o }
  }

  /** Sends the swap; as often as it is called. */
  swap({ units, above, revision, rows }: Collected): () => Promise<ScriptReply> {
    const { id: rebuildId, keys, seenEpoch, fields } = this
    const of = (state: string) => rows.filter((r) => r.state === state)
    const sum = (state: string) => of(state).reduce((n, r) => n + r.quantity, 0)
    const args = {
      ...saleTerms(this.world.activity, 1),
      ...{ rebuildId, seenEpoch, above, revision, tombstones: 1 + of('released').length },
    }
    const more = {
      keys: [stockKey('s1'), doneKey('s1'), keys.stock('s1'), keys.done('s1')],
      args: [units, sum('confirmed'), sum('paid'), fields.stock, fields.done].map(String),
    }
    return () => this.runner.run(rebuildSwap, { ...KEYS, tombs: keys.released }, args, more)
  }
}

function argsOf({ userId, orderNo, quantity, state }: Row): string[] {
  const record = `${state[0]}|${orderNo}|${quantity}|1790000000000|`
  return [userId, orderNo, record, state === 'released' ? 'x' : '']
}
