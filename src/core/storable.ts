/** What a text column is trusted to hold; MySQL's TEXT holds 65,535 bytes. */
export const MAX_TEXT_BYTES = 60_000

/** What every database stores: no NUL, no half of a surrogate pair. */
export function storable(text: string, max: number): string {
  return text.slice(0, max).replace(/\0|\p{Surrogate}/gu, '\uFFFD')
}
