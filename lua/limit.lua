-- Takes one token of every rule that a call falls under, for a batch of calls; or none, and names the rule that refuses.
-- Why atomic: a call that one rule refuses must not be charged by the others, and no token may be spent twice.
-- A bucket is one number, the instant at which it is full again: idle it is full, never overfull, and nothing is stored.
-- Instants are ns of a clock that starts at 0 with the keys and follows Redis' TIME alone. It never runs backwards: when
-- TIME steps back, the origin steps with it, so that nothing is refilled twice and nobody waits for the step to pass.
-- A step forward cannot be told from idle time: it fills the buckets once.
-- Buckets lie in two hashes by turns. After a window, the longest time to refill, all that the older one holds is full,
-- so it is dropped whole and takes the next turn: three keys a resource, however many callers. Only calls that pass leave
-- a bucket behind, and beyond the budget a newcomer shares one of 1,021 with others.
-- @unpinned it holds no stock, and may run on another Redis
-- KEYS[1] clock
-- KEYS[2] buckets
-- KEYS[3] others, the buckets of the window before or after
-- ARGV[1] windowNs number
-- ARGV[2] budget number, buckets in a hash
-- ARGV[3] totalStep number, ns to refill one token
-- ARGV[4] totalRoom number, ns to refill them all
-- ARGV[5] ipStep number
-- ARGV[6] ipRoom number
-- ARGV[7] userStep number
-- ARGV[8] userRoom number
-- ARGV[9] width number, of a call's arguments: 2, or 5 where SKUs have a rule
-- ARGV[10] count number
-- ARGV[11...] ip, user and, if SKUs have a rule, sku ('' where no rule applies), skuStep, skuRoom; for each call
-- Returns {1, codes, waits}; both joined by blanks. A code for each call: 0 passes, refused by 1 total, 2 sku, 3 ip,
--   4 user. A wait, in whole ms, for each call that was refused. A batch of which nothing passes writes nothing, but
--   for what it mends: a clock set back, a bucket that lacks more than all it holds.

-- Doubles throughout (the mock's whole numbers have 32 bits); nil for what is no number.
local function number(text)
  local value = tonumber(text)
  if not value or value ~= value then return nil end
  return value + 0.0
end
local function whole(value) return string.format('%.0f', value) end

local window, budget, width, count = number(ARGV[1]), number(ARGV[2]), tonumber(ARGV[9]), tonumber(ARGV[10])
local total_step, total_room = number(ARGV[3]), number(ARGV[4])
local ip_step, ip_room, user_step, user_room = number(ARGV[5]), number(ARGV[6]), number(ARGV[7]), number(ARGV[8])
local columns = width == 5 and 3 or 2

local time = redis.call('TIME')
local at = tonumber(time[1]) * 1000000.0 + tonumber(time[2])
local head = redis.call('HMGET', KEYS[1], 'origin', 'at', 'since', 'side', 'total')
local origin, last, since, total = number(head[1]), number(head[2]), number(head[3]), number(head[5])
local side = head[4] == '3' and 3 or 2
local fresh = not (origin and last and since and total)
local mend = not fresh and at < last
if mend then origin = origin - (last - at) end
local now = fresh and 0.0 or (at - origin) * 1000
if fresh or now < since then fresh, origin, now, since, total = true, at, 0.0, 0.0, 0.0 end
local turn = fresh or now - since >= window
local to = turn and 5 - side or side

-- full_at[name]: of every bucket that this batch meets. shared[name]: where a newcomer beyond the budget is counted.
local names, full_at, shared = {}, {}, {}
for i = 1, count do
  local first = width * (i - 1) + 11
  for j = first, first + columns - 1 do
    local name = ARGV[j]
    if name ~= '' and not full_at[name] then
      names[#names + 1] = name
      full_at[name] = now
    end
  end
end
local size = turn and 0 or redis.call('HLEN', KEYS[to])
if #names > 0 and not fresh then
  local here = turn and {} or redis.call('HMGET', KEYS[to], unpack(names))
  local before = redis.call('HMGET', KEYS[5 - to], unpack(names))
  local crowded = size + #names > budget
  for i = 1, #names do
    local name, value = names[i], number(here[i])
    if not value then
      value = number(before[i])
      if crowded then
        local a, b, c = string.byte(' ' .. name, -3, -1)
        local slot = string.sub(name, 1, 1) .. '#' .. ((a * 31 + b) * 31 + c) % 1021
        shared[name], name = slot, slot
        if not full_at[slot] then
          full_at[slot] = number(redis.call('HGET', KEYS[to], slot)) or number(redis.call('HGET', KEYS[5 - to], slot)) or now
        end
      end
    end
    if value and value > full_at[name] then full_at[name] = value end
  end
end

local charged, of_charged = {}, {}
local function set(name, instant)
  full_at[name] = instant
  if not of_charged[name] then charged[#charged + 1] = name end
  of_charged[name] = true
end
-- How long until the bucket has a token, in ns; 0 or less when it has one. A bucket cannot lack more than all it holds:
-- what says so is damaged, or was written under another rule.
local function wait_for(name, step, room)
  local instant = full_at[name]
  if instant > now + room then
    instant = now + room
    set(name, instant)
  end
  return instant + step - room - now
end

if total < now then total = now elseif total > now + total_room then total, mend = now + total_room, true end
local codes, waits, passed = {}, {}, 0
for i = 1, count do
  local first = width * (i - 1) + 11
  local ip, user, sku, sku_step = ARGV[first], ARGV[first + 1], '', nil
  if width == 5 then sku, sku_step = ARGV[first + 2], number(ARGV[first + 3]) end
  ip, user, sku = shared[ip] or ip, shared[user] or user, shared[sku] or sku
  local code, wait = 1, total + total_step - total_room - now
  if wait <= 0 and sku ~= '' then code, wait = 2, wait_for(sku, sku_step, number(ARGV[first + 4])) end
  if wait <= 0 and ip ~= '' then code, wait = 3, wait_for(ip, ip_step, ip_room) end
  if wait <= 0 and user ~= '' then code, wait = 4, wait_for(user, user_step, user_room) end
  if wait <= 0 then
    code, passed = 0, passed + 1
    total = total + total_step
    if sku ~= '' then set(sku, full_at[sku] + sku_step) end
    if ip ~= '' then set(ip, full_at[ip] + ip_step) end
    if user ~= '' then set(user, full_at[user] + user_step) end
  else
    waits[#waits + 1] = whole(math.ceil(wait / 1000000))
  end
  codes[i] = code
end

if passed > 0 or mend or #charged > 0 then
  redis.call('HSET', KEYS[1], 'origin', whole(origin), 'at', whole(at), 'since', whole(turn and now or since),
    'side', whole(to), 'total', whole(total))
  if turn then
    redis.call('UNLINK', KEYS[to])
    if fresh then redis.call('UNLINK', KEYS[5 - to]) end
    redis.call('PEXPIRE', KEYS[1], whole(2 * window / 1000000))
  end
  if #charged > 0 then
    local writes = {}
    for i = 1, #charged do writes[2 * i - 1], writes[2 * i] = charged[i], whole(full_at[charged[i]]) end
    redis.call('HSET', KEYS[to], unpack(writes))
    if size == 0 then redis.call('PEXPIRE', KEYS[to], whole(2 * window / 1000000)) end
  end
end
return {1, table.concat(codes, ' '), table.concat(waits, ' ')}
