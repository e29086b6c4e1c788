import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import * as check from '../../src/core/check.js'
import { FlashSaleError } from '../../src/core/errors.js'
import { NO_COUNT, NO_ID, NO_KEY_ID } from '../suites/stock-bucket/input.js'
import { activityOf } from '../suites/stock-bucket/world.js'

const codeOf = (act: () => unknown) => {
  try {
    act()
    return 'taken'
  } catch (error) {
    return error instanceof FlashSaleError ? error.code : String(error)
  }
}

it('C02 takes whole numbers within bounds and nothing that only looks like one', () => {
  expect([1, 1000].map((n) => check.int(n, 'n', 1, 1000))).toEqual([1, 1000])
  for (const value of [...NO_COUNT, 1001])
    expect(
      codeOf(() => check.int(value, 'n', 1, 1000)),
      String(value),
    ).toBe('BAD_INPUT')
  expect(Object.is(check.int(-0, 'n', 0, 1), 0)).toBe(true)
})

it('C06 takes exactly the characters that are promised, for ids and for parts of keys', () => {
  for (let code = 0; code < 0x180; code++) {
    const id = String.fromCharCode(code)
    const visible = code >= 0x21 && code <= 0x7e && id !== '|'
    expect(
      codeOf(() => check.id(id, 'id')),
      id,
    ).toBe(visible ? 'taken' : 'BAD_INPUT')
    const ofKey = visible && !'{}:#*'.includes(id)
    expect(
      codeOf(() => check.keyId(id, 'id')),
      id,
    ).toBe(ofKey ? 'taken' : 'BAD_INPUT')
    expect(
      codeOf(() => check.keyId(`a${id}b`, 'id')),
      id,
    ).toBe(ofKey ? 'taken' : 'BAD_INPUT')
  }
  for (const id of NO_KEY_ID) expect(codeOf(() => check.keyId(id, 'id'))).toBe('BAD_INPUT')
  for (const id of NO_ID) expect(codeOf(() => check.id(id, 'id'))).toBe('BAD_INPUT')
  expect(check.id('x'.repeat(64), 'id')).toHaveLength(64)
})

it('C11 takes a buyer as string or BigInt with every digit, never as a number', () => {
  expect(check.userIdOf(1849302938475629013n)).toBe('1849302938475629013')
  expect(check.userIdOf('1849302938475629013')).toBe('1849302938475629013')
  for (const id of [
    5,
    1849302938475629013n.toString().length,
    Number('1849302938475629013'),
    10n ** 64n,
  ])
    expect(codeOf(() => check.userIdOf(id))).toBe('BAD_INPUT')
})

it('names the field and shows the value, short and without a throw of its own', () => {
  expect(() => check.int('５', 'quantity', 1, 5)).toThrow(
    'quantity must be a whole number from 1 to 5, got "５"',
  )
  const cycle: unknown[] = []
  cycle.push(cycle)
  for (const value of [
    1n,
    Symbol('x'),
    cycle,
    Object.create(null),
    () => 1,
    Number.NaN,
    undefined,
    new Proxy({}, {}),
  ])
    expect(check.show(value).length).toBeLessThan(120)
  expect(check.show('x'.repeat(10_000)).length).toBeLessThan(120)
})

describe('C08 instants', () => {
  it.each([
    1_790_000_000,
    '2026-11-11',
    '2026-11-11T00:00',
    '2026-11-11T00:00:00Z',
    '1790000000000',
    new Date(),
    Number.NaN,
    Infinity,
    null,
    undefined,
    1_790_000_000_000.5,
    1790000000000n,
    -1_790_000_000_000,
    1e14,
    2 ** 53,
  ])('are epoch milliseconds: not %s', (value) => {
    expect(codeOf(() => check.instant(value, 'opensAt'))).toBe('BAD_INPUT')
    expect(codeOf(() => check.activity({ ...activityOf(), opensAt: value as never }))).toBe(
      'BAD_INPUT',
    )
  })

  it('may lie far ahead, and need no timer', () => {
    const before = process.getActiveResourcesInfo().length
    const opensAt = Date.now() + 400 * 86_400_000
    expect(check.activity(activityOf({ opensAt, endsAt: opensAt + 1 })).opensAt).toBe(opensAt)
    expect(process.getActiveResourcesInfo().length).toBe(before)
  })

  it('mean the same in every time zone', () => {
    const script = `
      import { activity } from ${JSON.stringify(new URL('../../src/core/check.ts', import.meta.url).href)}
      const { opensAt, endsAt } = activity({ activityId: 'a', version: 'v', opensAt: 1793511000000, endsAt: 1793518200000, payWithinMs: 1000,
        mode: 'queued', tokens: 'off', maxPerOrder: 1, skus: [{ skuId: 's', units: 1, priceMinor: 1, currency: 'CNY' }] })
      console.log(opensAt, endsAt)`
    // 2026-11-01 01:30 to 02:30 in New York, where that hour runs twice.
    const told = ['UTC', 'Asia/Shanghai', 'America/New_York'].map(
      (TZ) =>
        spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
          env: { ...process.env, TZ },
          encoding: 'utf8',
        }).stdout,
    )
    expect(told).toEqual(told.map(() => '1793511000000 1793518200000\n'))
  })
})

describe('a payload', () => {
  it('is serialised once, as it stands', () => {
    expect(check.payloadText({ a: [1, 'x', null, true, 1.5] })).toBe('{"a":[1,"x",null,true,1.5]}')
    expect(check.payloadText(undefined)).toBeUndefined()
    expect(check.payloadText('x'.repeat(1_022))).toHaveLength(1_024)
    expect(
      check.payloadText({ id: '1849302938475629013', at: 1_790_000_000_000, tiny: 1e-20 }),
    ).toBeDefined()
  })

  it.each([
    ['over 1 KiB', 'x'.repeat(1_023)],
    ['over 1 KiB in bytes', '秒'.repeat(342)],
    ['a BigInt', { id: 1n }],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
    ['C11 an unsafe number', { id: Number('1849302938475629013') }],
    ['an unsafe number with an exponent', [1e21]],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('no')
        },
      },
    ],
  ])('is refused: %s', (_, payload) => {
    expect(codeOf(() => check.payloadText(payload))).toBe('BAD_INPUT')
  })
})

describe('an activity', () => {
  it('is copied without strangers, and frozen', () => {
    const given = { ...activityOf(), secret: 1, skus: [{ ...activityOf().skus[0], secret: 1 }] }
    const checked = check.activity(given as never)
    expect(JSON.stringify(checked)).not.toContain('secret')
    expect(
      Object.isFrozen(checked) && Object.isFrozen(checked.skus) && Object.isFrozen(checked.skus[0]),
    ).toBe(true)
    expect(checked.watermark).toBe(5_000)
  })

  it('may not end before it opens, nor name an SKU twice', () => {
    const { opensAt, skus } = activityOf()
    expect(codeOf(() => check.activity(activityOf({ opensAt, endsAt: opensAt })))).toBe('BAD_INPUT')
    expect(codeOf(() => check.activity(activityOf({ skus: [...skus, ...skus] })))).toBe('BAD_INPUT')
  })
})

it('an option has its default, and is refused as BAD_OPTION', () => {
  expect(check.option(undefined, 'x', 5, 1, 9)).toBe(5)
  for (const value of [0, 10, '5', null, Number.NaN])
    expect(codeOf(() => check.option(value as never, 'x', 5, 1, 9))).toBe('BAD_OPTION')
})
