import * as check from './check.js'

/** A host's callback as it may be called anywhere: checked as an option, and what it throws ends nothing of ours. */
export function quiet<A extends unknown[]>(
  name: string,
  callback: ((...args: A) => void) | undefined,
): (...args: A) => void {
  if (callback !== undefined && typeof callback !== 'function')
    check.fail('BAD_OPTION', `option ${name}`, 'a function', callback)
  return (...args) => {
    try {
      callback?.(...args)
    } catch {
      // nor its own error handler
    }
  }
}
