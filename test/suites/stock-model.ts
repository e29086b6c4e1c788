import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { it } from 'vitest'
import type { StockBucket } from '../../src/stock/stock-bucket.js'
import {
  act,
  agree,
  controlCommand,
  deductCommand,
  MAX,
  moveCommand,
  type SaleCommand,
  topUpCommand,
} from './stock-bucket/commands.js'
import { SaleModel } from './stock-bucket/model.js'
import { sku, World } from './stock-bucket/world.js'

type Command = SaleCommand | { readonly do: 'save' | 'fail over' }

const UNITS = 6
const HIGH = 4
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: deductCommand },
  { weight: 6, arbitrary: moveCommand },
  { weight: 2, arbitrary: topUpCommand },
  { weight: 3, arbitrary: controlCommand },
  {
    weight: 2,
    arbitrary: fc.constantFrom('save', 'fail over').map((word) => ({ do: word as 'save' })),
  },
)

/** Any sequence of what processes may do, also across failovers, leaves Redis as the plain model says. */
export function stockModel(
  engine: 'mock' | 'real',
  open: () => Promise<Redis>,
  o: { readonly runs: number },
): void {
  it(`S2 S6 any sequence of calls ends as the model says (${engine} Redis)`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 25 }), async (commands) => {
        const world = new World(await open(), engine)
        const stock = await world.sale({ skus: [sku(UNITS)], maxPerOrder: MAX, watermark: HIGH })
        const run = new Run(world, stock)
        for (const c of commands) await run.step(c)
        await run.agree()
      }),
      { numRuns: o.runs, interruptAfterTimeLimit: 9_000 },
    )
  })
}

class Run {
  private model = new SaleModel(UNITS, MAX, HIGH)
  private saved: { model: SaleModel; contents: Record<string, unknown> } | null = null

  constructor(
    private readonly world: World,
    private readonly stock: StockBucket,
  ) {}

  async step(c: Command): Promise<void> {
    const { world, stock } = this
    switch (c.do) {
      case 'save':
        this.saved = { model: this.model.clone(), contents: await world.contents() }
        break
      case 'fail over':
        if (!this.saved) return
        this.model = this.saved.model.clone()
        await world.restore(this.saved.contents)
        break
      default:
        await act(c, { world, stock, model: this.model })
    }
  }

  /** At the end of a run alone: then there are more runs, and what is wrong in the middle is wrong at the end of a shorter one. */
  async agree(): Promise<void> {
    const { world, stock, model } = this
    await world.sound({ units: { s1: model.S } })
    await agree(world, stock, model)
  }
}
