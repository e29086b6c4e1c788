-- Asks for room to write some orders to the database: at most `cap` in any second, over all processes.
-- Why atomic: two processes must not both be given the last room.
-- What is being written counts until it is done and then for one more second; so whatever second is looked at, all that was
-- committed in it was counted together.
-- Who has to wait leaves his orders, and who comes after him counts them as taken: or small askers would take each bit of
-- room as it comes free, and one who needs more at once would never be given any.
-- May run twice, also after its turn was ended: an answer that nobody waits for any more must not take room.
-- KEYS[1] pace
-- ARGV[1] turn string, names this asker
-- ARGV[2] orders number
-- ARGV[3] cap number
-- ARGV[4] leaseMs number, after which a writer that says nothing counts no more
-- Returns {1} go on; {0, waitMs}: ask again then, within a second to keep one's place.
-- @unpinned
-- @include tag

local now = now_ms()
local entries = redis.call('HGETALL', KEYS[1])
local sum, wait, came, ended = 0, 50, now, false
local gone, waiting = {}, {}
for i = 1, #entries, 2 do
  local state, orders, at, since = string.match(entries[i + 1], '^([wdq])|(%d+)|(%d+)|?(%d*)$')
  local left = state and tonumber(at) + 0.0 - now or 0
  if left <= 0 then gone[#gone + 1] = entries[i]
  elseif entries[i] == ARGV[1] then
    if state == 'q' then came = tonumber(since) + 0.0 end
    ended = state == 'd'
  elseif state == 'q' then waiting[#waiting + 1] = {tonumber(since) + 0.0, entries[i], tonumber(orders)}
  else
    sum = sum + tonumber(orders)
    if state == 'd' and left < wait then wait = left end
  end
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
if ended then return {0, math.max(1, math.ceil(wait))} end
for i = 1, #waiting do
  local since, turn, orders = unpack(waiting[i])
  if since < came or since == came and turn < ARGV[1] then sum = sum + orders end
end
local fits = sum == 0 or sum + tonumber(ARGV[2]) <= tonumber(ARGV[3])
local entry = fits and 'w|' .. ARGV[2] .. '|' .. whole(now + tonumber(ARGV[4]))
  or 'q|' .. ARGV[2] .. '|' .. whole(now + 1000) .. '|' .. whole(came)
redis.call('HSET', KEYS[1], ARGV[1], entry)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if fits then return {1} end
return {0, math.max(1, math.ceil(wait))}
