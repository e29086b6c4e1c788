import type { LastAct } from '../core/ports.js'

/** Who stops a sale that its Redis has lost; a host's operators must not call themselves so. */
export const KEEPER = 'flash-sale-kit'

const LOST = 'Redis '

/** The reason of such a stop: what befell Redis, in the rest of a sentence. */
export function stopReason(what: string): string {
  return `${LOST}${what}`.slice(0, 500)
}

/** True for a stop that a rebuild may end: nobody has decided anything since. A person's stop is left to a person. */
export function isOwnStop(last: LastAct | null): boolean {
  return last?.state === 'stopped' && last.actor === KEEPER && last.reason.startsWith(LOST)
}
