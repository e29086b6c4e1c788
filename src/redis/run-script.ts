import { within } from '../core/background.js'
import { FlashSaleError } from '../core/errors.js'
import type { RedisLike } from '../core/ports.js'
import { redisCode, redisError } from './errors.js'

/** A script of `scripts.generated.ts`. */
export interface Script {
  readonly name: string
  readonly sha: string
  readonly lua: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

export type ScriptReply = readonly [code: number, ...rest: unknown[]]

/** Runs a script by its SHA, with its text where the server does not have it (a new node, a restart, SCRIPT FLUSH). */
export class ScriptRunner {
  constructor(
    private readonly redis: RedisLike,
    private readonly timeoutMs: number,
  ) {}

  /**
   * @param more keys and arguments beyond the named ones
   * @throws FlashSaleError `REDIS_REFUSED`, `CORRUPT`, or `OUTCOME_UNKNOWN` when no answer came within the limit
   */
  async run<S extends Script>(
    script: S,
    keys: Readonly<Record<S['keys'][number], string>>,
    args: Readonly<Record<S['args'][number], string | number>>,
    more: { readonly keys?: readonly string[]; readonly args?: readonly string[] } = {},
  ): Promise<ScriptReply> {
    const names = script.keys.map((name) => keys[name as S['keys'][number]])
    const all = more.keys ? [...names, ...more.keys] : names
    const values = script.args.map((name) => String(args[name as S['args'][number]]))
    const rest = more.args ? [...all, ...values, ...more.args] : [...all, ...values]
    const reply = await within(this.send(script, all.length, rest), this.timeoutMs, () => {
      throw new FlashSaleError(
        'OUTCOME_UNKNOWN',
        `no answer to ${script.name} within ${this.timeoutMs} ms`,
      )
    })
    if (!Array.isArray(reply) || typeof reply[0] !== 'number')
      throw new FlashSaleError('CORRUPT', `${script.name} answered what it never answers`)
    return reply as unknown as ScriptReply
  }

  private async send(script: Script, keys: number, rest: readonly string[]): Promise<unknown> {
    try {
      return await this.redis.evalsha(script.sha, keys, ...rest)
    } catch (error) {
      if (redisCode(error) !== 'NOSCRIPT') throw redisError(error, script.name)
    }
    try {
      return await this.redis.eval(script.lua, keys, ...rest)
    } catch (error) {
      throw redisError(error, script.name)
    }
  }
}
