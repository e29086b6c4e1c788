import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PREFIX = 'flash-sale-kit-'
const made = new Set<string>()

process.on('exit', () => {
  for (const folder of made) removeScratch(folder)
})

/** A new folder under the system's temp folder; its name carries our pid, so that a later run can tell it is abandoned. */
export function scratchFolder(purpose: string): string {
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-${purpose}-`))
  chmodSync(folder, 0o755) // PostgreSQL runs as another user and must get through
  made.add(folder)
  return folder
}

export function removeScratch(folder: string): void {
  made.delete(folder)
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes the folders of processes that were killed before they could clean up. */
export function removeAbandonedScratch(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(PREFIX)
      ? Number.parseInt(name.slice(PREFIX.length), 10)
      : Number.NaN
    if (!(pid > 0) || isAlive(pid)) continue
    try {
      removeScratch(join(tmpdir(), name))
    } catch {
      // another user's; theirs to remove
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
