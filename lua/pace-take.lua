-- Asks for room to write some orders to the database: at most `cap` in any second, over all processes.
-- Why atomic: two processes must not both be given the last room.
-- What is being written counts until it is done and then for one more second; so whatever second is looked at, all that was
-- committed in it was counted together.
-- KEYS[1] pace
-- ARGV[1] turn string, names this asker
-- ARGV[2] orders number
-- ARGV[3] cap number
-- ARGV[4] leaseMs number, after which a writer that says nothing counts no more
-- Returns {1} go on; {0, waitMs}: ask again then.
-- @unpinned
-- @include tag

local now = now_ms()
local entries = redis.call('HGETALL', KEYS[1])
local sum, wait = 0, 50
local gone = {}
for i = 1, #entries, 2 do
  local state, orders, at = string.match(entries[i + 1], '^([wd])|(%d+)|(%d+)$')
  local left = state and tonumber(at) + 0.0 - now or 0
  if left <= 0 then gone[#gone + 1] = entries[i]
  else
    sum = sum + tonumber(orders)
    if state == 'd' and left < wait then wait = left end
  end
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
if sum > 0 and sum + tonumber(ARGV[2]) > tonumber(ARGV[3]) then return {0, math.max(1, math.ceil(wait))} end
redis.call('HSET', KEYS[1], ARGV[1], 'w|' .. ARGV[2] .. '|' .. whole(now + tonumber(ARGV[4])))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1}
