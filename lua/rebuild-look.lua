-- Reads how an activity stands: whether its keys are of one piece, and how far it has come.
-- Why atomic: the keys must be of one moment.
-- @unpinned
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5...] stock, done; for each SKU
-- ARGV[1] skus number
-- Returns {code, epoch, seq, state, waiting, eviction, records, version}: code 1 all is well, -1 keys are missing or not of one piece,
--   -8 numbers that do not add up; epoch and seq 0 where they cannot be read; eviction is the server's maxmemory-policy, or
--   unknown; records are the reservations kept of each SKU, joined by blanks.
-- @include tag numbers

local sale = redis.call('HMGET', KEYS[1], ' ', 'seq', 'state', 'waiting', 'version')
local epoch, seq, waiting = count_of(sale[1]), count_of(sale[2]), count_of(sale[4])
local code, records = 1, {}
for i = 1, tonumber(ARGV[1]) do
  local stock, done = KEYS[3 + 2 * i], KEYS[4 + 2 * i]
  if not epoch_of({KEYS[1], KEYS[2], KEYS[3], KEYS[4], stock, done}) then code = -1
  elseif code == 1 and not (read_numbers(stock) and seq and waiting) then code = -8 end
  records[i] = whole(math.max(redis.call('HLEN', done) - 1, 0))
end
-- Every server may have its own; CONFIG may not be called from a script, and an ACL may forbid INFO too.
local info = redis.pcall and redis.pcall('INFO', 'memory')
local eviction = type(info) == 'string' and string.match(info, 'maxmemory_policy:([%w-]+)') or 'unknown'
local state = type(sale[3]) == 'string' and sale[3] or ''
return {code, whole(epoch or 0), whole(seq or 0), state, whole(waiting or 0), eviction, table.concat(records, ' '),
  type(sale[5]) == 'string' and sale[5] or ''}
