/** Does it for each, so many at a time. One promise a lane; where `work` throws, that lane ends. */
export function inLanes<T>(
  lanes: number,
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
): Promise<void>[] {
  const left = items.values()
  return Array.from({ length: lanes }, async () => {
    for (const item of left) await work(item)
  })
}
