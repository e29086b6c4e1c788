export const BUYERS = ['A', 'B', 'C'] as const
export const CLICKS = 3

export type Kind =
  | 'click'
  | 'crowd'
  | 'resend'
  | 'relay'
  | 'hand over'
  | 'unpaid'
  | 'pay'
  | 'ask'
  | 'reconcile'
  | 'rebuild'
  | 'stop'

/** What comes next, by weight, while calls are under way; and while none are. */
export const UNDER_WAY = [
  'call',
  'call',
  'call',
  'call',
  'call',
  'act',
  'act',
  'act',
  'time',
  'disaster',
]
export const IDLE = ['act', 'act', 'act', 'act', 'act', 'act', 'time', 'disaster']
export const KINDS: readonly Kind[] = [
  'click',
  'click',
  'click',
  'hand over',
  'hand over',
  'hand over',
  'crowd',
  'relay',
  'relay',
  'unpaid',
  'unpaid',
  'resend',
  'pay',
  'ask',
  'reconcile',
  'rebuild',
  'stop',
]
/** Kinds that a run may do without. */
export const SOME: readonly Kind[] = [
  'crowd',
  'resend',
  'unpaid',
  'pay',
  'ask',
  'reconcile',
  'stop',
  'rebuild',
]
/** The next timer, so many ms, or 3 s by the clock of Redis alone: what is owed falls due. */
export const TIMES = [undefined, undefined, 'Redis', 3_000, 660_000] as const
