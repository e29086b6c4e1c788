-- Puts what a rebuild has collected in the place of all keys of a tag, under a new epoch, stopped.
-- Why atomic: half of the old ledger with half of the new would sell units twice, or never.
-- What is not owed, watched or decided any more by then is forgotten: a message still on its way is adopted or closed.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] tombs, the released collected
-- KEYS[6...] stock, done, stock collected, done collected; for each SKU
-- ARGV[1] version string
-- ARGV[2] opensAt number
-- ARGV[3] endsAt number
-- ARGV[4] tokens string
-- ARGV[5] tokenEpoch number
-- ARGV[6] maxPerOrder number
-- ARGV[7] high number, watermark in orders
-- ARGV[8] low number
-- ARGV[9] scripts string
-- ARGV[10] expiresAt number, epoch ms
-- ARGV[11] skus number
-- ARGV[12] rebuildId string
-- ARGV[13] seenEpoch number, the epoch when the rebuild began, 0 for none
-- ARGV[14] above number, the new epoch must be greater
-- ARGV[15] tombstones number, fields of the released collected, the blank one included
-- ARGV[16] revision number, of the durable row when the rebuild stopped the sale
-- ARGV[17...] total, frozen, sold, fields of the stock collected, fields of the done collected; for each SKU
-- Returns {1, epoch} done, also by an earlier run of this very call; {0} something collected is missing;
--   {-1} another rebuild or a warm-up came first, or the sale is open; {-2} the keys would expire at once.
-- @include tag

local skus = tonumber(ARGV[11])
local was = redis.call('HMGET', KEYS[1], ' ', 'state', 'rebuild', 'revision')
local current = tonumber(type(was[1]) == 'string' and was[1] or '')
if current and was[3] == ARGV[12] then return {1, was[1]} end
if current and whole(current) ~= ARGV[13] then return {-1} end
if epoch_of({KEYS[1], KEYS[2], KEYS[3], KEYS[4]}) and was[2] == 'open' then return {-1} end
if tonumber(ARGV[10]) <= now_ms() then return {-2} end
if redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[15]) then return {0} end
for i = 1, skus do
  local key, arg = 4 * i + 2, 5 * i + 12
  if redis.call('HLEN', KEYS[key + 2]) ~= tonumber(ARGV[arg + 3]) then return {0} end
  if redis.call('HLEN', KEYS[key + 3]) ~= tonumber(ARGV[arg + 4]) then return {0} end
end

-- What Redis was told last holds on, so that an older act that is still on its way does not open the new keys.
local revision = whole(math.max(tonumber(ARGV[16]), tonumber(type(was[4]) == 'string' and was[4] or '') or 0))
-- A sale that has decided orders is in use, which warm-up of another version tells by `seq`.
local used = tonumber(ARGV[15]) > 1
local epoch = whole(math.max(now_ms(), (current or 0) + 1, tonumber(ARGV[13]) + 1, tonumber(ARGV[14]) + 1))
for i = 1, skus do
  local key, arg = 4 * i + 2, 5 * i + 12
  local s, frozen, sold = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local total = math.max(s, frozen + sold)
  used = used or frozen + sold > 0
  redis.call('HSET', KEYS[key + 2], ' ', epoch, 'total', whole(total), 'available', whole(total - frozen - sold),
    'frozen', whole(frozen), 'sold', whole(sold), 'pending', '0', 'over', whole(total - s), 'version', ARGV[1])
  redis.call('HSET', KEYS[key + 3], ' ', epoch)
end
redis.call('HSET', KEYS[5], ' ', epoch)
-- A ledger of a million records is freed beside the event loop, not in it.
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
for i = 1, skus do
  local key = 4 * i + 2
  redis.call('UNLINK', KEYS[key], KEYS[key + 1])
  redis.call('RENAME', KEYS[key + 2], KEYS[key])
  redis.call('RENAME', KEYS[key + 3], KEYS[key + 1])
  redis.call('PEXPIREAT', KEYS[key], ARGV[10])
  redis.call('PEXPIREAT', KEYS[key + 1], ARGV[10])
end
redis.call('RENAME', KEYS[5], KEYS[2])
redis.call('HSET', KEYS[1], ' ', epoch, 'state', 'stopped', 'version', ARGV[1], 'opensAt', ARGV[2], 'endsAt', ARGV[3],
  'tokens', ARGV[4], 'tokenEpoch', ARGV[5], 'maxPerOrder', ARGV[6], 'high', ARGV[7], 'low', ARGV[8], 'scripts', ARGV[9],
  'waiting', '0', 'busy', '0', 'seq', used and '1' or '0', 'rebuild', ARGV[12],
  'revision', revision)
redis.call('ZADD', KEYS[3], '9007199254740991', ' ' .. epoch)
redis.call('HSET', KEYS[4], ' ', epoch)
for i = 1, 4 do redis.call('PEXPIREAT', KEYS[i], ARGV[10]) end
return {1, epoch}
