-- Says that orders have been written: they count for one more second.
-- Why atomic: the room must not be free for an instant in between.
-- KEYS[1] pace
-- ARGV[1] turn string
-- ARGV[2] orders number
-- Returns {1}.
-- @unpinned
-- @include tag

redis.call('HSET', KEYS[1], ARGV[1], 'd|' .. ARGV[2] .. '|' .. whole(now_ms() + 1000))
if redis.call('PTTL', KEYS[1]) < 2000 then redis.call('PEXPIRE', KEYS[1], 2000) end
return {1}
