-- Hands entries of a stream to a consumer: first those whose owner has been silent for too long (it crashed, or wanted
-- them tried again), then new ones. Makes the group where it is missing, so it also serves after a FLUSHALL.
-- Why atomic: what is found silent must not be renewed or taken by another before it is claimed.
-- KEYS[1] stream
-- ARGV[1] consumer string
-- ARGV[2] limit number; 0 only makes the group
-- ARGV[3] claimAfterMs number
-- ARGV[4] cursor string; where to look for silent owners ('-' is the start), '' not to look
-- Returns {1, cursor, id, attempt, message, …}: three for each. cursor is where to look on, '' at the end; the message of
--   an entry that has none is ''.
-- @unpinned
-- @include queue

local stream, consumer, limit, claim_after = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local PAGE = 100
local reply, taken = {1, ''}, 0

local function take(entry, attempt)
  local id, fields = entry[1], entry[2] or {}
  local message = ''
  for i = 1, #fields, 2 do
    if fields[i] == 'message' then message = fields[i + 1] end
  end
  taken = taken + 1
  reply[3 * taken], reply[3 * taken + 1], reply[3 * taken + 2] = id, attempt, message
end

-- XPENDING with IDLE and XAUTOCLAIM would be shorter, and are not in Redis 6.0.
local function take_silent(from)
  local page = pending(stream, from, '+', PAGE)
  local owners = {}
  for i = 1, #page do
    local id, owner, idle, times = unpack(page[i])
    if taken == limit then
      reply[2] = id
      break
    end
    if idle >= claim_after then
      local entry = redis.call('XCLAIM', stream, GROUP, consumer, claim_after, id)[1]
      -- Someone deleted the entry itself: there is nothing left to hand out.
      if not entry then redis.call('XACK', stream, GROUP, id)
      else take(entry, times + 1) end
      owners[owner] = true
    end
    if i == PAGE then reply[2] = id end
  end
  for owner in pairs(owners) do
    if owner ~= consumer then forget_idle(stream, owner) end
  end
end

if redis.pcall('XPENDING', stream, GROUP).err then redis.call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM') end
if limit > 0 and ARGV[4] ~= '' then take_silent(ARGV[4]) end
if taken < limit then
  local fresh = redis.call('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', limit - taken, 'STREAMS', stream, '>')
  if fresh then
    for _, entry in ipairs(fresh[1][2]) do take(entry, 1) end
  end
end
return reply
