/** A Java properties file. */
export function properties(words: Readonly<Record<string, string>>): string {
  return Object.entries(words)
    .map(([word, value]) => `${word}=${value}\n`)
    .join('')
}
