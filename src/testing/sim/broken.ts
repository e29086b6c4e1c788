import {
  beforeCommit,
  neverCloses,
  redisFirst,
  refundsFirst,
  strikesOff,
  unitsInRedisFirst,
  withoutRow,
} from './broken-books.js'
import type { Broken } from './options.js'

/** Replaces one passage of one script; a script without it stays as it is. */
const instead =
  (of: string, by: string) =>
  (lua: string): string =>
    lua.replace(of, () => by)

/** The library with one of its rules broken at a time, by the names of the counterexamples to the protocol. */
export const BROKEN: readonly Broken[] = [
  {
    id: 'A0',
    rule: 'units of a rejected message go back only behind CLOSED rows',
    orders: withoutRow('send-rejected'),
  },
  {
    id: 'S0',
    rule: 'a batch travels as one message',
    orders: withoutRow('send-rejected', 2),
    splits: true,
  },
  {
    id: 'F1',
    rule: 'a number that nobody confirmed gets a CLOSED row before its unit goes back',
    orders: withoutRow('lost'),
  },
  {
    id: 'H1',
    rule: 'every number that a confirm does not confirm gets a CLOSED row',
    book: { rowsForRefused: false },
  },
  {
    id: 'G1',
    rule: 'a timeout closes the database first, then Redis',
    orders: redisFirst,
  },
  { id: 'J1', rule: 'Redis is told after COMMIT only', orders: beforeCommit },
  { id: 'Cn', rule: 'a buyer has one live order in the database', book: { liveKey: false } },
  {
    id: 'D-noadopt',
    rule: 'a live order that Redis has forgotten is booked again',
    lua: instead("elseif to == 'r' then codes[i] = 4", 'elseif true then codes[i] = 4'),
  },
  {
    id: 'D2',
    rule: 'what is not there for it is booked in `over`',
    lua: instead('local taken = math.min(n.available, quantity)', 'local taken = quantity'),
  },
  {
    id: 'B1',
    rule: 'the release of an unknown number changes nothing',
    lua: instead(
      "elseif to == 'r' then codes[i] = 4",
      "elseif to == 'r' then n.frozen = n.frozen - quantity; take_back(quantity); change(user, 'r|' .. order_no .. '|' .. whole(quantity) .. '|0|'); codes[i] = 1",
    ),
  },
  {
    id: 'L1',
    rule: 'a deduction records its number',
    lua: instead(
      "redis.call('HSET', KEYS[6], unpack(writes))\n  redis.call('HSET', KEYS[5]",
      "redis.call('HSET', KEYS[5]",
    ),
  },
  {
    id: 'K-blind',
    rule: '`pending` moves only with the transition out of held',
    lua: instead(
      "if state == 'r' then codes[i] = to == 'r' and 2 or 5",
      "if state == 'r' then n.pending = n.pending - units; change(field, record); codes[i] = to == 'r' and 2 or 5",
    ),
  },
  {
    id: 'K-noclose',
    rule: 'a number that nobody confirms is closed in time',
    orders: neverCloses('lost'),
  },
  {
    id: 'W0',
    rule: 'a number that nobody knows is closed after the grace time',
    orders: neverCloses('never-appeared'),
  },
  { id: 'ST1', rule: 'a stop is a durable row first', control: { losesStops: true } },
  {
    id: 'A1f',
    rule: 'that nobody has taken the owed message up does not replace the CLOSED row',
    orders: strikesOff,
  },
  {
    id: 'X-purge',
    rule: 'a released number is remembered as long as a client may send it again',
    lua: instead(
      "if #tombs > 0 then redis.call('HSET', KEYS[2], unpack(tombs)) end",
      "for i = 1, #fields do if string.sub(changed[fields[i]], 1, 1) == 'r' then redis.call('HDEL', KEYS[6], fields[i]) end end",
    ),
  },
  { id: 'P1', rule: 'late money buys an order of a new number', book: { lateIsNew: false } },
  {
    id: 'P-direct',
    rule: 'a refund is written down before the channel is asked for it',
    payments: refundsFirst,
  },
  {
    id: 'R2',
    rule: 'a refund that is on its way counts when the next one is decided',
    book: { refundsAddUp: false },
  },
  {
    id: 'U4',
    rule: 'a top-up is in the database before it is in Redis',
    orders: unitsInRedisFirst,
  },
  {
    id: 'R1',
    rule: 'the library opens a sale only if nobody has acted on it meanwhile',
    control: { actsBlindly: true },
  },
  {
    id: 'R0',
    rule: 'an act on the sale that Redis hears after a later one changes nothing',
    lua: instead('local late = told and', 'local late = false and'),
  },
]
