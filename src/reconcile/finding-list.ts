import type { SkuRef } from '../core/types.js'
import type { Finding } from './findings.js'

/** Findings listed of one run; further ones are counted. A finding takes half a kilobyte. */
export const MAX_LISTED = 10_000

/** What a run has found: the first in full, all of them counted. */
export class FindingList {
  readonly #listed = new Map<string, Finding>()
  readonly #counts = new Map<string, number>()
  #units = 0
  #truncated = false

  get listed(): readonly Finding[] {
    return [...this.#listed.values()]
  }

  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts)
  }

  get units(): number {
    return this.#units
  }

  get truncated(): boolean {
    return this.#truncated
  }

  /** Not all was looked at. */
  truncate(): void {
    this.#truncated = true
  }

  /** Those listed of one SKU. */
  of({ activityId, skuId }: SkuRef): readonly Finding[] {
    return this.listed.filter((f) => f.skuId === skuId && f.activityId === activityId)
  }

  add(finding: Finding): void {
    if (this.#listed.has(finding.id)) return
    if (this.#listed.size < MAX_LISTED) this.#listed.set(finding.id, finding)
    else this.#truncated = true
    this.#note(finding, 1)
  }

  remove(finding: Finding): void {
    if (this.#listed.delete(finding.id)) this.#note(finding, -1)
  }

  /** The same differences, to be dealt with otherwise. */
  replace(finding: Finding): void {
    if (this.#listed.has(finding.id)) this.#listed.set(finding.id, finding)
  }

  #note({ kind, units }: Finding, by: 1 | -1): void {
    const n = (this.#counts.get(kind) ?? 0) + by
    if (n === 0) this.#counts.delete(kind)
    else this.#counts.set(kind, n)
    this.#units += by * units
  }
}
