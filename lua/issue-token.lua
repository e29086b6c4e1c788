-- Issues a stored token, or names the one its buyer holds already.
-- Why atomic: two calls at once must not leave a buyer with two live tokens.
-- KEYS[1] owner, which names the buyer's token
-- KEYS[2] token, the new one
-- KEYS[3] held, the one he is said to hold; token again when that is not known yet
-- ARGV[1] tokenId string
-- ARGV[2] heldId string, '' when not known yet
-- ARGV[3] binding string: user, device, epoch and end
-- ARGV[4] keepUntil number, epoch ms
-- Returns {1, id} this is his token now; {0, id} he holds that one: call again and name it.
-- @unpinned

local holds = redis.call('GET', KEYS[1])
if type(holds) == 'string' and holds ~= ARGV[2] then return {0, holds} end
if ARGV[2] ~= '' and redis.call('GET', KEYS[3]) == ARGV[3] then return {1, ARGV[2]} end
redis.call('SET', KEYS[2], ARGV[3])
redis.call('PEXPIREAT', KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[4])
if ARGV[2] ~= '' then redis.call('DEL', KEYS[3]) end
return {1, ARGV[1]}
