-- Reads whom a stored token is for.
-- Why atomic: it is a single read; a script only because scripts are all that is used of a client.
-- KEYS[1] token
-- Returns {1, binding}, or {0} not known.
-- @unpinned

local binding = redis.call('GET', KEYS[1])
if type(binding) ~= 'string' then return {0} end
return {1, binding}
