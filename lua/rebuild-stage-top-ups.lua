-- Writes some top-ups of one SKU, whose units are in its total, where a rebuild collects what is to replace the keys of a tag.
-- Why atomic: what is collected must never stay without an end.
-- May run twice with the same top-ups.
-- KEYS[1] stock, collected
-- ARGV[1] keepMs number
-- ARGV[2] had number, fields collected before this; a Redis that has fewer has lost some
-- ARGV[3] count number
-- ARGV[4...] operationId, units; for each
-- Returns {1, stock}: fields collected so far; {0} some of what was collected before is gone, nothing was written.

if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[2]) then return {0} end
local fields = {' ', ''}
for i = 1, tonumber(ARGV[3]) do fields[2 * i + 1], fields[2 * i + 2] = ' ' .. ARGV[2 * i + 2], ARGV[2 * i + 3] end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {1, redis.call('HLEN', KEYS[1])}
