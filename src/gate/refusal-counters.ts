/** What one layer has answered since the process began. */
export interface LayerCounts {
  readonly seen: number
  readonly refused: number
  /** Refused by seen: the layer's rejection rate, 0 to 1. */
  readonly rate: number
  /** Refusals by status. */
  readonly byStatus: Readonly<Record<string, number>>
}

interface Counts {
  passed: number
  readonly refused: Map<string, number>
}

/** Names come from code, not from clients; if that should ever fail, memory stays bounded and the rest is `other`. */
const MAX_NAMES = 100

/**
 * Counts what each layer lets pass and what it refuses, by status: a load test reads each layer's rejection rate from it.
 * One addition in memory a call; the host's metrics read {@link snapshot} when they are scraped.
 */
export class RefusalCounters {
  private readonly layers = new Map<string, Counts>()

  passed(layer: string): void {
    this.of(layer).passed++
  }

  refused(layer: string, status: string): void {
    const { refused } = this.of(layer)
    const name = refused.has(status) || refused.size < MAX_NAMES ? status : 'other'
    refused.set(name, (refused.get(name) ?? 0) + 1)
  }

  /** Layers in the order they first counted. */
  snapshot(): Readonly<Record<string, LayerCounts>> {
    const all: [string, LayerCounts][] = []
    for (const [layer, { passed, refused: of }] of this.layers) {
      let refused = 0
      for (const count of of.values()) refused += count
      const seen = passed + refused
      const rate = refused / seen
      all.push([layer, { seen, refused, rate, byStatus: Object.fromEntries(of) }])
    }
    return Object.fromEntries(all)
  }

  private of(layer: string): Counts {
    const found = this.layers.get(layer)
    if (found) return found
    if (layer !== 'other' && this.layers.size >= MAX_NAMES) return this.of('other')
    const counts: Counts = { passed: 0, refused: new Map() }
    this.layers.set(layer, counts)
    return counts
  }
}
