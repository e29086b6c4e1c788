-- Creates the keys of an activity, stopped; or compares those that exist with what they should be.
-- Why atomic: a half-made sale must not be sellable, and two instances that warm up at once must not reset each other.
-- Keys that exist are never reset, with one exception: a version of which nothing was ever taken gives way to the next.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5...] stock, done; for each SKU
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
-- ARGV[12] topUps number, of those that are in a total: repeated, they must add nothing
-- ARGV[13...] total, live (units of live orders in the database); for each SKU; then index of its SKU, operation id, units;
--   for each top-up
-- Returns {1} warmed, {2} already warm, {0, what, sku} differs in `what` at the SKU's index (0: the sale),
--   {-1} keys are missing or not of one piece, or the database has orders that Redis does not know: rebuild,
--   {-2} another version is in use.
-- @include tag numbers

local skus = tonumber(ARGV[11])
local function tag_of(i) return {KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[3 + 2 * i], KEYS[4 + 2 * i]} end
local function exist(first, last)
  local there = 0
  for i = first, last do there = there + redis.call('EXISTS', KEYS[i]) end
  return there
end

local epoch, revision = '0', '0'
if exist(1, 4) == 0 then
  if exist(5, #KEYS) > 0 then return {-1} end
else
  epoch = epoch_of({KEYS[1], KEYS[2], KEYS[3], KEYS[4]})
  if not epoch then return {-1} end
  local sale = redis.call('HMGET', KEYS[1], 'version', 'opensAt', 'endsAt', 'tokens', 'maxPerOrder', 'state', 'scripts',
    'seq', 'revision')
  if sale[1] == ARGV[1] then
    for i = 1, skus do
      if not (epoch_of(tag_of(i)) and read_numbers(KEYS[3 + 2 * i])) then return {-1} end
    end
    if sale[2] ~= ARGV[2] then return {0, 'opensAt', 0} end
    if sale[3] ~= ARGV[3] then return {0, 'endsAt', 0} end
    if sale[4] ~= ARGV[4] then return {0, 'tokens', 0} end
    if sale[5] ~= ARGV[6] then return {0, 'maxPerOrder', 0} end
    for i = 1, skus do
      local n = read_numbers(KEYS[3 + 2 * i])
      if n.total - n.over ~= tonumber(ARGV[11 + 2 * i]) then return {0, 'total', i} end
    end
    if sale[7] ~= ARGV[9] then
      -- Scripts are pinned while the sale runs; a stopped one may move on to the new set.
      if sale[6] ~= 'stopped' then return {0, 'scripts', 0} end
      redis.call('HSET', KEYS[1], 'scripts', ARGV[9])
    end
    return {2}
  end
  revision = sale[9] or revision
  -- Its SKUs may be others than those asked for: `seq` speaks for all of them.
  if sale[6] ~= 'stopped' or sale[8] ~= '0' then return {-2} end
  for i = 1, skus do
    local stock, done = KEYS[3 + 2 * i], KEYS[4 + 2 * i]
    local there = exist(3 + 2 * i, 4 + 2 * i)
    local n = read_numbers(stock)
    if there == 1 or there == 2 and not n then return {-1} end
    if n and (n.available ~= n.total or n.over > 0 or redis.call('HLEN', done) > 1) then return {-2} end
  end
end
for i = 1, skus do
  if tonumber(ARGV[12 + 2 * i]) > 0 then return {-1} end
end

-- Redis time, so that it only grows, also over a flush; a step back of the clock is covered by the old value.
epoch = whole(math.max(now_ms(), tonumber(epoch) + 1))
for i = 1, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', KEYS[1], ' ', epoch, 'state', 'stopped', 'version', ARGV[1], 'opensAt', ARGV[2], 'endsAt', ARGV[3],
  'tokens', ARGV[4], 'tokenEpoch', ARGV[5], 'maxPerOrder', ARGV[6], 'high', ARGV[7], 'low', ARGV[8], 'scripts', ARGV[9],
  'waiting', '0', 'busy', '0', 'seq', '0', 'revision', revision)
redis.call('HSET', KEYS[2], ' ', epoch)
redis.call('ZADD', KEYS[3], '9007199254740991', ' ' .. epoch)
redis.call('HSET', KEYS[4], ' ', epoch)
for i = 1, skus do
  local total = ARGV[11 + 2 * i]
  redis.call('HSET', KEYS[3 + 2 * i], ' ', epoch, 'total', total, 'available', total, 'frozen', '0', 'sold', '0',
    'pending', '0', 'over', '0', 'version', ARGV[1])
  redis.call('HSET', KEYS[4 + 2 * i], ' ', epoch)
end
for i = 1, tonumber(ARGV[12]) do
  local at = 10 + 2 * skus + 3 * i
  redis.call('HSET', KEYS[3 + 2 * tonumber(ARGV[at])], ' ' .. ARGV[at + 1], ARGV[at + 2])
end
for i = 1, #KEYS do redis.call('PEXPIREAT', KEYS[i], ARGV[10]) end
return {1}
