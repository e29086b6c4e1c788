import { lagOf } from 'flash-sale-kit/kafka'
import { expect, it } from 'vitest'

const end = (partition: number, low: string, high: string) => ({ partition, low, high })
const done = (partition: number, offset: string) => ({ partition, offset })
const twelve = Array.from({ length: 12 }, (_, i) => i)

it.each([
  ['(a) a new group on an empty log', [0], [done(0, '-1')], [end(0, '0', '0')], 0],
  ['(b) a new group', [0], [done(0, '-1')], [end(0, '1000000', '1000010')], 10],
  ['(c) an end older than the commit', [0], [done(0, '500')], [end(0, '0', '480')], 0],
  ['(d) a commit the log has left behind', [0], [done(0, '10')], [end(0, '9000', '9000')], 0],
  ['(d) the same with messages', [0], [done(0, '10')], [end(0, '9000', '9007')], 7],
  [
    '(e) offsets beyond 2^53',
    [0],
    [done(0, '9223372036854775800')],
    [end(0, '9007199254740993', '9223372036854775807')],
    7,
  ],
  [
    '(f) ends of 11 of 12 partitions',
    twelve,
    twelve.map((p) => done(p, '0')),
    twelve.slice(1).map((p) => end(p, '0', '0')),
    'unknown',
  ],
  [
    '(f) commits of 11 of 12 partitions',
    twelve,
    twelve.slice(1).map((p) => done(p, '0')),
    twelve.map((p) => end(p, '0', '0')),
    'unknown',
  ],
  [
    '(g) a partition that is new',
    [0, 1],
    [done(0, '5'), done(1, '-1')],
    [end(0, '0', '5'), end(1, '0', '3')],
    3,
  ],
  [
    'a sum, where one end is stale',
    [0, 1],
    [done(0, '9'), done(1, '2')],
    [end(0, '0', '1'), end(1, '0', '4')],
    2,
  ],
  [
    'a sum beyond 2^53',
    [0],
    [done(0, '-1')],
    [end(0, '0', '9223372036854775807')],
    Number.MAX_SAFE_INTEGER,
  ],
  ['what is no offset', [0], [done(0, 'x')], [end(0, '0', '5')], 'unknown'],
  ['a fraction', [0], [done(0, '1.5')], [end(0, '0', '5')], 'unknown'],
  ['a commit of the word earliest (-2)', [0], [done(0, '-2')], [end(0, '3', '5')], 2],
] as const)('C12: %s', (_, partitions, committed, ends, lag) => {
  expect(lagOf(partitions, committed, ends)).toBe(lag)
})
