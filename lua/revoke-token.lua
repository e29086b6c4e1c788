-- Ends a stored token.
-- Why atomic: its buyer may be given another at the same moment, and must then keep that one.
-- KEYS[1] token
-- KEYS[2] owner, which names the buyer's token
-- ARGV[1] tokenId string
-- Returns {1} ended, {0} there was none.
-- @unpinned

if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
return {redis.call('DEL', KEYS[1])}
