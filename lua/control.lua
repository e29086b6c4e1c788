-- Opens or stops a sale, or raises its token epoch.
-- Why atomic: it must not revive a sale whose keys are gone, nor undo a later act that Redis was told of first.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- ARGV[1] state string, open or stopped; '' leaves it
-- ARGV[2] tokenEpoch number; a smaller one than stored changes nothing
-- ARGV[3] revision string, of the durable row; '' for none: then the state is set whatever was told before
-- Returns {1}; {0} a later revision was told before, the state is left; {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local told = tonumber(ARGV[3])
local late = told and told < (tonumber(redis.call('HGET', KEYS[1], 'revision')) or 0)
if told and not late then redis.call('HSET', KEYS[1], 'revision', ARGV[3]) end
if ARGV[1] ~= '' and not late then redis.call('HSET', KEYS[1], 'state', ARGV[1]) end
if tonumber(ARGV[2]) > (tonumber(redis.call('HGET', KEYS[1], 'tokenEpoch')) or 0) then
  redis.call('HSET', KEYS[1], 'tokenEpoch', ARGV[2])
end
return {late and 0 or 1}
