-- Opens or stops a sale, or raises its token epoch.
-- Why atomic: it must not revive a sale whose keys are gone.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- ARGV[1] state string, open or stopped; '' leaves it
-- ARGV[2] tokenEpoch number; a smaller one than stored changes nothing
-- Returns {1}, or {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], 'state', ARGV[1]) end
if tonumber(ARGV[2]) > (tonumber(redis.call('HGET', KEYS[1], 'tokenEpoch')) or 0) then
  redis.call('HSET', KEYS[1], 'tokenEpoch', ARGV[2])
end
return {1}
