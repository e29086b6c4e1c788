-- Appends a message to a stream.
-- Why atomic: the room is looked at and taken in one step.
-- KEYS[1] stream
-- ARGV[1] message string
-- ARGV[2] maxMessages number
-- Returns {1} it is there, {0} full: nothing was written.
-- @unpinned

if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[2]) then return {0} end
redis.call('XADD', KEYS[1], '*', 'message', ARGV[1])
return {1}
