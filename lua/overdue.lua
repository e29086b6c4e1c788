-- Names batches born so long ago that somebody should have settled or closed them. Claims nothing.
-- Why atomic: a list of batches and their births must be of one moment.
-- @unpinned
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- ARGV[1] olderThanMs number
-- ARGV[2] limit number, batches looked at, the first due first
-- Returns {1, batches}: batchId and age in ms, …, joined by blanks. {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local now = now_ms()
local members = redis.call('ZRANGE', KEYS[3], '0', ARGV[2])
local found = {}
for i = 1, #members do
  local batch_id = string.match(members[i], '^([^ ]+)')
  local born = batch_id and tonumber(redis.call('HGET', KEYS[4], ' ' .. batch_id) or '')
  if born and now - born >= tonumber(ARGV[1]) then
    found[#found + 1] = batch_id .. ' ' .. whole(now - born)
  end
end
return {1, table.concat(found, ' ')}
