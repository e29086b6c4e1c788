-- Says that orders are still being written: they count for another lease.
-- Why atomic: one that comes late must not take back that they have been written.
-- KEYS[1] pace
-- ARGV[1] turn string
-- ARGV[2] orders number
-- ARGV[3] leaseMs number
-- Returns {1}; {0} they have been written.
-- @unpinned
-- @include tag

if string.sub(redis.call('HGET', KEYS[1], ARGV[1]) or '', 1, 1) == 'd' then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], 'w|' .. ARGV[2] .. '|' .. whole(now_ms() + tonumber(ARGV[3])))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1}
