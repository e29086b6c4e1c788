import { FlashSaleError } from '../core/errors.js'

/**
 * Faults on purpose, and orders and payments that nobody made, have no place where real ones are. Throws `BAD_OPTION`
 * where `NODE_ENV` says production.
 */
export function notInProduction(what: string): void {
  // biome-ignore lint/style/noProcessEnv: the library's one look at the environment, and all it does is refuse
  if (process.env['NODE_ENV'] === 'production')
    throw new FlashSaleError(
      'BAD_OPTION',
      `${what} is for tests: it refuses to run with NODE_ENV=production`,
    )
}
