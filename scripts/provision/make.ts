import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Artifact, artifactPath, cacheFolder, isMade } from '../../test/harness/artifacts.js'
import { step } from './run.js'

const UNFINISHED = '.unfinished-'

/**
 * Has `build` fill a folder beside the final place and renames it when all is well: what was interrupted is never taken
 * for an artifact. Of two clones that make it at once, one wins and both are content.
 */
export function make(artifact: Artifact, what: string, build: (folder: string) => void): void {
  if (isMade(artifact)) return
  mkdirSync(cacheFolder(), { recursive: true })
  removeUnfinished()
  const folder = mkdtempSync(join(cacheFolder(), `${UNFINISHED}${process.pid}-`))
  try {
    step(what, () => build(folder))
    if (!existsSync(artifactPath(artifact))) renameSync(folder, artifactPath(artifact))
  } catch (error) {
    if (!isMade(artifact)) throw error
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Of processes that are no more. */
function removeUnfinished(): void {
  for (const name of readdirSync(cacheFolder())) {
    if (!name.startsWith(UNFINISHED)) continue
    if (!isRunning(Number.parseInt(name.slice(UNFINISHED.length), 10)))
      rmSync(join(cacheFolder(), name), { recursive: true, force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
