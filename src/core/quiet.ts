import * as check from './check.js'

/**
 * A host's callback as it may be called anywhere: checked as an option, and what it throws ends nothing of ours. Nor does
 * a promise of it that rejects: what returns nothing may be async too, and where nobody waits for it nobody would catch it.
 *
 * @param of what it is a method of
 */
export function quiet<A extends unknown[]>(
  name: string,
  callback: ((...args: A) => void) | undefined,
  of?: object,
): (...args: A) => void {
  if (callback !== undefined && typeof callback !== 'function')
    check.fail('BAD_OPTION', `option ${name}`, 'a function', callback)
  return (...args) => {
    try {
      const returned: unknown = callback?.apply(of, args)
      if (returned !== undefined) Promise.resolve(returned).catch(ignore)
    } catch {
      // nor its own error handler
    }
  }
}

const ignore = () => {}
