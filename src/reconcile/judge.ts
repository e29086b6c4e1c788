import { pause } from '../core/background.js'
import type { OrderBook } from '../core/order-book.js'
import type { ReconcilableStock } from '../core/reconcile.js'
import type { ReservationRecord, SkuRef } from '../core/types.js'
import { classify, REDIS_BEHIND, type Verdict } from './classify.js'
import { type FindingList, MAX_LISTED } from './finding-list.js'
import { type Finding, findingOf, unreadable } from './findings.js'
import { markMissing } from './marks.js'
import { type Pair, SecondLook, type Suspect } from './second-look.js'
import { stopIfAborted } from './stop.js'

interface JudgeParts {
  readonly stock: ReconcilableStock
  readonly orders: OrderBook
  readonly graceMs: number
  readonly settleMs: number
  readonly signal: AbortSignal | undefined
}

/** Looks again at the numbers of an SKU that seem to differ, and says which are findings and which are on their way. */
export class Judge {
  /** Units held, without a row, within the grace time. */
  onTheWay = 0
  /** Units of orders that are closed and not yet back, whether late or not. */
  returning = 0
  /** Numbers that Redis has known as decided for a moment only, and the database does not. */
  behind = 0
  /** Numbers that Redis has back and no row tells of: their tombstones are explained. */
  readonly withoutClosing = new Set<string>()
  readonly #look: SecondLook

  constructor(
    private readonly parts: JudgeParts,
    private readonly ref: SkuRef,
    private readonly found: FindingList,
  ) {
    this.#look = new SecondLook(parts.stock, parts.orders)
  }

  /** `strange`: buyers whose record cannot be read, which is told elsewhere. */
  async judge(suspects: readonly Suspect[], strange: ReadonlySet<string>): Promise<void> {
    for await (const pair of this.#again(suspects.filter((s) => !strange.has(s.userId))))
      this.#one(pair)
  }

  /** Records beside their buyer's mark are in order as long as that bars him. */
  async judgeBeside(
    beside: readonly ReservationRecord[],
    strange: ReadonlySet<string>,
  ): Promise<void> {
    for await (const pair of this.#again(beside.filter((r) => !strange.has(r.userId)))) {
      if (this.#verdict(pair).status === 'finding') continue
      const finding = await markMissing(this.parts.stock, this.ref, pair)
      if (finding) this.found.add(finding)
    }
  }

  /** Redis hears of a commit a moment later; what stands after that moment is a difference. */
  async settle(): Promise<void> {
    const before = new Map<string, Finding>()
    const suspects: Suspect[] = []
    for (const f of this.found.of(this.ref)) {
      if (!REDIS_BEHIND.has(f.kind) || f.orderNo === null || f.userId === null) continue
      before.set(f.orderNo, f)
      suspects.push({ orderNo: f.orderNo, userId: f.userId })
    }
    if (suspects.length === 0) return
    await pause(this.parts.settleMs, this.parts.signal ?? new AbortController().signal)
    for await (const pair of this.#again(suspects)) {
      const finding = before.get(pair.orderNo)
      const verdict = this.#verdict(pair)
      if (!finding || (verdict.status === 'finding' && verdict.kind === finding.kind)) continue
      this.found.remove(finding)
      if (verdict.status === 'finding') this.found.add(numberFinding(this.ref, verdict, pair))
    }
  }

  async *#again(suspects: readonly Suspect[]): AsyncGenerator<Pair> {
    for await (const page of this.#look.pages(this.ref, suspects)) {
      stopIfAborted(this.parts.signal)
      for (const userId of page.strange) this.found.add(unreadable(this.ref, userId))
      yield* page.pairs
    }
  }

  #verdict({ record, row, ageMs }: Pair): Verdict {
    return classify(record, row, ageMs < this.parts.graceMs)
  }

  #one(pair: Pair): void {
    const verdict = this.#verdict(pair)
    if (verdict.status === 'agrees') return
    const units = pair.row?.quantity ?? pair.record?.quantity ?? 0
    if (verdict.kind === 'release-owed') this.returning += units
    if (verdict.kind === 'no-closing' && this.withoutClosing.size < MAX_LISTED)
      this.withoutClosing.add(pair.orderNo)
    if (verdict.status === 'finding') this.found.add(numberFinding(this.ref, verdict, pair))
    else if (verdict.kind === 'order-missing') this.behind++
    else if (verdict.kind === 'no-order') this.onTheWay += units
  }
}

function numberFinding(
  ref: SkuRef,
  { kind, repair }: Extract<Verdict, { status: 'finding' }>,
  pair: Pair,
): Finding {
  const { orderNo, userId, record, row, ageMs } = pair
  const units = row?.quantity ?? record?.quantity ?? 0
  return findingOf({
    ...{ ...ref, kind, orderNo, userId, units, ageMs, repair },
    evidence: evidenceOf(kind, pair),
  })
}

function evidenceOf(kind: Finding['kind'], { record, row }: Pair): string {
  const more =
    kind === 'owner-differs'
      ? `, of ${row?.userId} in ${row?.skuId}`
      : kind === 'quantity-differs'
        ? `, ${row?.quantity} units for ${record?.quantity}`
        : kind === 'terms-differ'
          ? `, version ${row?.version}, bucket ${row?.bucket}`
          : ''
  const inDatabase = row ? row.status + (row.reason ? ` (${row.reason})` : '') : 'no row'
  return `Redis: ${record?.state ?? 'nothing'}; database: ${inDatabase}${more}`
}
