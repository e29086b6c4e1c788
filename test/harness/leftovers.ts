import { afterAll } from 'vitest'
import { runningProcesses } from './process.js'

/** A file that leaves a process running fails; setup files' hooks run after those of the file. */
afterAll(async () => {
  const left = runningProcesses()
  await Promise.all(left.map((child) => child.kill('SIGKILL')))
  if (left.length > 0)
    throw new Error(
      `left running: ${left.map((child) => `${child.name} (${child.pid})`).join(', ')}`,
    )
})
