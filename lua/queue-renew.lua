-- Says that a consumer is still at work on its entries.
-- Why atomic: an entry that another took over must not be taken from him.
-- KEYS[1] stream
-- ARGV[1] consumer string
-- ARGV[2...] id; for each
-- Returns {1, renewed}: how many are still the consumer's.
-- @unpinned
-- @include queue

local renewed = 0
for i = 2, #ARGV do
  if pending_of(KEYS[1], ARGV[i]) == ARGV[1] then
    redis.call('XCLAIM', KEYS[1], GROUP, ARGV[1], 0, ARGV[i], 'JUSTID')
    renewed = renewed + 1
  end
end
return {1, renewed}
