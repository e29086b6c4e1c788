export const BUYERS = ['A', 'B', 'C'] as const
export const CLICKS = 3

/** The plainest first. */
export const KINDS = [
  'click',
  'hand over',
  'relay',
  'crowd',
  'resend',
  'unpaid',
  'pay',
  'ask',
  'reconcile',
  'rebuild',
  'guard',
  'stop',
  'top up',
  'check out',
  'pay open',
  'call back',
  'keep',
  'cancel',
  'refund',
] as const
export type Kind = (typeof KINDS)[number]

/** A kind of run: what may come next, by weight. Runs of few kinds stay small and go deep. */
export interface Theme {
  readonly kinds: readonly Kind[]
  /** Clicks may go through the gate; else each names a number of its own, and may be sent again. */
  readonly gate: 'never' | 'sometimes' | 'always'
  /** Buyers pay by themselves, and deadlines of payment pass. */
  readonly pays: boolean
  /** It is about stops and rebuilds: there are both, also of a Redis that is well. */
  readonly acts?: true
}

const STOCK: Theme = {
  kinds: [
    ...many('click', 3),
    ...many('hand over', 3),
    ...many('relay', 2),
    ...many('unpaid', 2),
    'crowd',
    'resend',
    'pay',
    'ask',
    'reconcile',
    'rebuild',
    'stop',
    'top up',
  ],
  gate: 'never',
  pays: false,
}
/** What is admitted again because Redis forgot it. */
const LOSS: Theme = {
  kinds: [
    ...many('click', 4),
    ...many('hand over', 4),
    ...many('relay', 2),
    'unpaid',
    'pay',
    'reconcile',
  ],
  gate: 'never',
  pays: false,
}
/** Stops and rebuilds that meet each other, and clicks that the gate does not keep away. */
const ACTS: Theme = {
  kinds: [
    ...many('click', 3),
    ...many('stop', 2),
    ...many('rebuild', 2),
    ...many('guard', 2),
    'hand over',
    'reconcile',
  ],
  gate: 'never',
  pays: false,
  acts: true,
}
/** The same, with clicks that go through the gate. */
const GATE: Theme = {
  kinds: [
    ...many('click', 4),
    ...many('hand over', 2),
    ...many('stop', 2),
    ...many('rebuild', 2),
    ...many('guard', 2),
    'crowd',
    'relay',
    'unpaid',
    'ask',
    'reconcile',
    'top up',
  ],
  gate: 'always',
  pays: false,
  acts: true,
}
const MONEY: Theme = {
  kinds: [
    ...many('click', 2),
    ...many('hand over', 2),
    ...many('pay', 2),
    ...many('check out', 2),
    ...many('pay open', 3),
    ...many('call back', 4),
    ...many('keep', 2),
    ...many('refund', 2),
    'cancel',
    'unpaid',
    'relay',
    'reconcile',
    'rebuild',
    'stop',
  ],
  gate: 'sometimes',
  pays: true,
}
export const THEMES: readonly Theme[] = [STOCK, MONEY, GATE, LOSS, STOCK, MONEY, ACTS]

function many(kind: Kind, weight: number): readonly Kind[] {
  return Array.from({ length: weight }, () => kind)
}

/** The plainest first. */
export const GROUPS = ['call', 'act', 'time', 'disaster'] as const
type Group = (typeof GROUPS)[number]
/** What comes next, by weight, while calls are under way; and while none are. */
export const UNDER_WAY: readonly Group[] = [
  ...['call', 'call', 'call', 'call', 'call', 'act', 'act', 'act', 'time', 'disaster'],
] as Group[]
export const IDLE: readonly Group[] = [
  ...['act', 'act', 'act', 'act', 'act', 'act', 'time', 'disaster'],
] as Group[]

const NEEDED: readonly Kind[] = ['click', 'hand over', 'relay', 'call back']

/** Whether a run cannot do without it. */
export const isNeeded = (kind: Kind, { acts }: Theme): boolean =>
  NEEDED.includes(kind) || (acts === true && (kind === 'stop' || kind === 'rebuild'))

/** The next timer, so many ms, or 3 s by the clock of Redis alone: what is owed falls due. */
export const TIMES = [undefined, undefined, 'Redis', 3_000, 660_000] as const
