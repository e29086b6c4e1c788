import type { Lease, Leases } from '../../core/ports.js'
import type { Fence, Fences } from '../../core/reconcile.js'
import type { SimProcess } from './process.js'
import type { Write } from './sim-orders.js'

const NONE: Fence = { epoch: 0, seq: 0 }

/** How far Redis had come, as the database keeps it. */
export class SimFences {
  private highest = NONE

  of(write: Write): Fences {
    return {
      read: async () => this.highest,
      raise: (_, fence) =>
        write(`fence ${fence.epoch}:${fence.seq}`, [], () => {
          const { epoch, seq } = this.highest
          if (fence.epoch > epoch || (fence.epoch === epoch && fence.seq > seq))
            this.highest = { epoch: fence.epoch, seq: fence.seq }
          return this.highest
        }),
    }
  }
}

/** Who may act, by the database's clock. A crashed process hears of it no more. */
export class SimLeases {
  private readonly held = new Map<string, { readonly fence: number; until: number }>()

  constructor(private readonly now: () => number) {}

  of(process: SimProcess): Leases {
    const alive = <T>(value: T) =>
      process.dead ? new Promise<T>(() => {}) : Promise.resolve(value)
    return {
      take: (name, leaseMs) => {
        const last = this.held.get(name)
        if (process.dead || (last && last.until > this.now())) return alive(null)
        const mine = { fence: (last?.fence ?? 0) + 1, until: this.now() + leaseMs }
        this.held.set(name, mine)
        const isMine = () => this.held.get(name) === mine && mine.until > this.now()
        const lease: Lease = {
          fence: mine.fence,
          renew: (ms) => {
            const still = isMine()
            if (still && !process.dead) mine.until = this.now() + ms
            return alive(still)
          },
          release: () => {
            if (isMine() && !process.dead) mine.until = 0
            return alive(undefined)
          },
        }
        return alive(lease)
      },
    }
  }
}
