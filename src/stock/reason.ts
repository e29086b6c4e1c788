/** A tombstone's words are for people; those of the database's row, which may be longer, stay there. */
const LONGEST = 100

/** As Redis keeps the reason of a closing: scripts join them by `|`. */
export function tombstone(reason: string): string {
  return reason.slice(0, LONGEST).replace(/[|\n]/g, ' ')
}
