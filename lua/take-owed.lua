-- Claims batches whose message is not known to be in the queue, or that nobody confirmed for too long.
-- Why atomic: two relays must not claim the same batch at once (a saving only: consumers do not mind duplicates).
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- ARGV[1] leaseMs number
-- ARGV[2] closeAfterMs number
-- ARGV[3] limit number
-- Returns {1, due, batchId, bornAt, message, …}: four for each batch. due is send or close; or lost, for a batch without
--   its message, which is owed no longer. {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local now = now_ms()
local members = redis.call('ZRANGEBYSCORE', KEYS[3], '0', whole(now), 'LIMIT', '0', ARGV[3])
local reply = {1}
for i = 1, #members do
  local batch_id, accepted = string.match(members[i], '^([^ ]+)(.*)$')
  batch_id = batch_id or members[i]
  local message = redis.call('HGET', KEYS[4], batch_id)
  local born = tonumber(redis.call('HGET', KEYS[4], ' ' .. batch_id) or '') or now
  local due = 'send'
  if type(message) ~= 'string' then
    due, message = 'lost', ''
    redis.call('ZREM', KEYS[3], members[i])
    redis.call('HDEL', KEYS[4], ' ' .. batch_id)
  else
    if accepted ~= '' or now - born >= tonumber(ARGV[2]) then due = 'close' end
    redis.call('ZADD', KEYS[3], whole(now + tonumber(ARGV[1])), members[i])
  end
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = due, batch_id, whole(born), message
end
return {unpack(reply)}
