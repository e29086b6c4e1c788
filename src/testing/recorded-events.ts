import type { FlashSaleEvents } from '../core/ports.js'
import type { Refusal, SkuRef } from '../core/types.js'

type Detail = { readonly [key: string]: unknown }

/**
 * A pager and a log that remember what they were told: hand it over as `events`, and its `onError` and `onDead` where an
 * option of that name is wanted.
 */
export class RecordedEvents implements FlashSaleEvents {
  readonly alerts: { readonly code: string; readonly detail: Detail }[] = []
  readonly refusals: (SkuRef & {
    readonly layer: string
    readonly status: Refusal['status']
    readonly userId: string
  })[] = []
  readonly errors: unknown[] = []
  readonly dead: { readonly message: unknown; readonly why: string | undefined }[] = []

  readonly onAlert = (code: string, detail: Detail): void => {
    this.alerts.push({ code, detail })
  }

  readonly onRefused = (
    layer: string,
    { status }: Refusal,
    { activityId, skuId, userId }: SkuRef & { readonly userId: string },
  ): void => {
    this.refusals.push({ layer, status, activityId, skuId, userId })
  }

  readonly onError = (error: unknown): void => {
    this.errors.push(error)
  }

  readonly onDead = (message: unknown, why?: string): void => {
    this.dead.push({ message, why })
  }

  /** Codes in the order they came, with those that came twice. */
  get codes(): readonly string[] {
    return this.alerts.map(({ code }) => code)
  }

  clear(): void {
    for (const list of [this.alerts, this.refusals, this.errors, this.dead]) list.length = 0
  }
}
