/** An error for a table or an alert: its name and message, at most 500 characters. */
export function describe(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(0, 500)
}
