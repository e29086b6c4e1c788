-- Lets the group forget a consumer that has stopped; what it left for another try keeps its name until it is taken.
-- Why atomic: a consumer that holds an entry must not be forgotten, or the entry would go with it.
-- KEYS[1] stream
-- ARGV[1] consumer string
-- Returns {1}
-- @unpinned
-- @include queue

forget_idle(KEYS[1], ARGV[1])
return {1}
