import { setImmediate as turn } from 'node:timers/promises'
import type { SagaContext, SagaStore } from '../../../src/core/saga.js'
import type { Step } from './kit.js'

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
export function dice(seed: number): () => number {
  let a = seed
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The systems that steps reach: they count every effect, and fail before or after it as long as `faulty`. */
export class World {
  faulty = true
  readonly done = new Map<string, number>()
  readonly undone = new Map<string, number>()
  /** Called in mid-step now and then: somebody else thinks the holder dead. */
  steal: () => Promise<void> = async () => {}
  /** Like a payment channel that keeps to the latest holder: by saga. */
  readonly #fences = new Map<string, number>()

  constructor(private readonly random: () => number) {}

  /** A step that is idempotent by key, or one that is not and has a probe. */
  step(name: string, o: { readonly idempotent: boolean; readonly refuses: number }): Step {
    return {
      name,
      do: async (_, context) => {
        await this.#trouble('before', context)
        const there = this.#count(this.done, context.key)
        if (there === 0 && this.random() < o.refuses) return { status: 'failed', reason: 'refused' }
        if (!o.idempotent || there === 0) this.done.set(context.key, there + 1)
        await this.#trouble('after', context)
        return { status: 'done', data: { seen: [context.key] } }
      },
      undo: async (_, context) => {
        await this.#trouble('before', context)
        const { key } = context
        if (this.#count(this.done, key) > 0 && this.#count(this.undone, key) === 0)
          this.undone.set(key, 1)
        await this.#trouble('after', context)
      },
      ...(o.idempotent
        ? {}
        : {
            probe: async (_, context) => {
              await this.#trouble('before', context)
              if (this.faulty && this.random() < 0.2) return { status: 'unknown' }
              return { status: this.#count(this.done, context.key) > 0 ? 'done' : 'not-done' }
            },
          }),
    }
  }

  /** Calls of the store that get lost, before the database hears of them or on the way back. */
  store<T>(real: SagaStore<T>): SagaStore<T> {
    const lossy =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        if (this.#fails(0.08)) throw new Error('the database is away')
        const result = await call(...args)
        if (this.#fails(0.08)) throw new Error('the answer is lost')
        return result
      }
    return {
      begin: (trx, saga) => real.begin(trx, saga),
      take: lossy((o) => real.take(o)),
      renew: lossy((hold, ms) => real.renew(hold, ms)),
      save: lossy((hold, to) => real.save(hold, to)),
      find: (id) => real.find(id),
      parked: (o) => real.parked(o),
      resume: (hold, to, audit) => real.resume(hold, to, audit),
      unattended: (o) => real.unattended(o),
    }
  }

  async #trouble(when: string, { sagaId, fence }: SagaContext): Promise<void> {
    if (this.#fails(0.1)) await this.steal()
    for (let turns = this.random() * 3; turns > 1; turns--) await turn()
    // What follows the last of these lines happens in one go with it.
    if (when === 'before') {
      if (fence < this.#count(this.#fences, sagaId)) throw new Error('a later holder was here')
      this.#fences.set(sagaId, fence)
    }
    if (this.#fails(0.2)) throw new Error(`failed ${when}`)
  }

  #fails(chance: number): boolean {
    return this.faulty && this.random() < chance
  }

  #count(counts: ReadonlyMap<string, number>, key: string): number {
    return counts.get(key) ?? 0
  }
}
