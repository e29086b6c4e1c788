-- Counts the entries of a stream that are not acknowledged.
-- Why atomic: count and age are of one moment.
-- KEYS[1] stream
-- Returns {1, messages, oldestAgeMs}; oldestAgeMs is '' when there is none.
-- @unpinned

local messages = redis.call('XLEN', KEYS[1])
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if not oldest then return {1, messages, ''} end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return {1, messages, math.max(0, now - tonumber(string.match(oldest[1], '^%d+')))}
