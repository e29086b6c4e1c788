import type { ShopConfig } from './addresses.js'
import type { CrowdSize } from './crowd.js'
import type { Window } from './sale.js'
import type { Stage } from './stage.js'

/** How large, and how long; what is left out is as {@link USUAL}. */
export interface Size extends Omit<CrowdSize, 'payWithinMs'> {
  readonly units: number
  /** How long an order may stay unpaid. */
  readonly payWithinMs?: number
  /** How long what is broken stays so, where that is a matter of choice. */
  readonly outageMs?: number
}

/** A payment window short enough to be waited for, long enough for a buyer who means to pay. */
export const USUAL = { payWithinMs: 6_000, outageMs: 3_000 } as const

export type ShopKind = Partial<Omit<ShopConfig, 'redis' | 'database' | 'queue' | 'channels'>>

/** One way to disturb a sale. The stage sets the sale up, lets the crowd in, and judges it at rest. */
export interface Scenario {
  readonly name: string
  /** What is broken, and for how long. */
  readonly about: string
  /** What a buyer hears meanwhile. */
  readonly buyerSees: string
  /** What must be there besides a Redis and a database. */
  readonly needs?: {
    /** The Redis of the sale; one server behind a proxy unless told otherwise; `nodes` are a cluster's. */
    readonly redis?: 'sentinel' | 'nodes'
    /** `broker`: that of the run. @defaultValue 'memory' */
    readonly queue?: 'memory' | 'redis-streams' | 'broker'
    /** A database server of its own, to be killed. */
    readonly database?: true
  }
  readonly size: Size
  /** When it is on sale, ms from now. @defaultValue open, and for an hour */
  readonly window?: Window
  /** The processes that serve. @defaultValue two of role `both` */
  readonly shops?: readonly ShopKind[]
  /** A process dies or ends, so that some who ask get no answer from it. @defaultValue false */
  readonly dropsAnswers?: true
  /** Called when the crowd begins. Breaks something within `stage.fault`, in mid-sale, and mends it. */
  run(stage: Stage): Promise<void>
}
