export const OWED_AFTER = 2_000
export const CLOSE_AFTER = 600_000
const ACCEPTED = ' accepted'

export interface Taken {
  readonly batchId: string
  readonly due: 'send' | 'close'
  readonly bornAt: number
}

/** Batches whose message is not known to be in the queue, or whose numbers are not known to be decided. */
export class OwedModel {
  /** By batch. */
  readonly born = new Map<string, number>()
  /** By batch while it is owed; by batch and a word once it was accepted. */
  readonly due = new Map<string, number>()

  owe(batchId: string, now: number): void {
    this.born.set(batchId, now)
    this.due.set(batchId, now + OWED_AFTER)
  }

  /** Nobody else is given it before the lease ends. */
  take(now: number, leaseMs: number, limit: number): Taken[] {
    const due = this.inOrder().filter((member) => (this.due.get(member) ?? 0) <= now)
    return due.slice(0, limit).map((member) => {
      this.due.set(member, now + leaseMs)
      const batchId = idOf(member)
      const bornAt = this.born.get(batchId) ?? 0
      const close = member !== batchId || now - bornAt >= CLOSE_AFTER
      return { batchId, due: close ? 'close' : 'send', bornAt }
    })
  }

  delivered(batchId: string, outcome: 'accepted' | 'settled', now: number): void {
    if (!this.born.has(batchId)) return
    this.due.delete(batchId)
    const accepted = batchId + ACCEPTED
    if (outcome === 'accepted') {
      if (!this.due.has(accepted)) this.due.set(accepted, now + CLOSE_AFTER)
      return
    }
    this.due.delete(accepted)
    this.born.delete(batchId)
  }

  overdue(now: number, lateMs: number): { batchId: string; ageMs: number }[] {
    const all = this.inOrder().map(idOf)
    const aged = all.map((batchId) => ({ batchId, ageMs: now - (this.born.get(batchId) ?? now) }))
    return aged.filter(({ ageMs }) => ageMs >= CLOSE_AFTER + lateMs)
  }

  clone(): OwedModel {
    return Object.assign(new OwedModel(), structuredClone({ ...this }))
  }

  private inOrder(): string[] {
    const byDue = [...this.due].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1))
    return byDue.map(([member]) => member)
  }
}

const idOf = (member: string) => member.split(' ')[0] as string
