-- Records what became of a batch: accepted by the queue (no longer owed, to be closed if nobody confirms it in time), or
-- settled (every number is decided and moved: nothing is left to watch).
-- Why atomic: it must be in one place only, owed or accepted.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- ARGV[1] batchId string
-- ARGV[2] outcome string, accepted or settled
-- ARGV[3] closeAfterMs number
-- Returns {1} done, {2} the batch is not there any more, {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local batch_id = ARGV[1]
local accepted = batch_id .. ' accepted'
if redis.call('HEXISTS', KEYS[4], batch_id) ~= 1 then return {2} end
if ARGV[2] == 'settled' then
  redis.call('ZREM', KEYS[3], batch_id, accepted)
  redis.call('HDEL', KEYS[4], batch_id, ' ' .. batch_id)
else
  if not tonumber(redis.call('ZSCORE', KEYS[3], accepted) or '') then
    redis.call('ZADD', KEYS[3], whole(now_ms() + tonumber(ARGV[3])), accepted)
  end
  redis.call('ZREM', KEYS[3], batch_id)
end
return {1}
