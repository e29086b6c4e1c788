-- Writes some orders of one SKU where a rebuild collects what is to replace the keys of a tag.
-- Why atomic: a buyer's mark is chosen among all his orders.
-- May run twice with the same orders. What is collected expires unless more comes.
-- KEYS[1] released, collected
-- KEYS[2] done, collected
-- ARGV[1] keepMs number
-- ARGV[2] had number, fields collected before this; a Redis that has fewer has lost some
-- ARGV[3] count number
-- ARGV[4...] userId, orderNo, record, reason ('' unless closed); for each order
-- Returns {1, done}: fields collected so far; {0} some of what was collected before is gone, nothing was written.
-- @include record

if redis.call('HLEN', KEYS[2]) < tonumber(ARGV[2]) then return {0} end
local count = tonumber(ARGV[3])
local users, fields, tombs, marks = {}, {' ', ''}, {' ', ''}, {}
for i = 1, count do users[i] = ARGV[4 * i] end
local found = count > 0 and redis.call('HMGET', KEYS[2], unpack(users)) or {}
for i = 1, count do
  local user, order_no, record, reason = users[i], ARGV[4 * i + 1], ARGV[4 * i + 2], ARGV[4 * i + 3]
  local mark_state, mark_no = parse_record(marks[user] or found[i])
  local state = parse_record(record)
  if state == 'r' then tombs[#tombs + 1], tombs[#tombs + 2] = order_no, reason end
  local field = user
  -- One live order bars a buyer; a second one lies beside it, and closed ones bar nobody.
  if mark_state and mark_state ~= 'r' and mark_no ~= order_no then field = state ~= 'r' and ' ' .. user .. ' ' .. order_no end
  if field then
    if field == user then marks[user] = record end
    fields[#fields + 1], fields[#fields + 2] = field, record
  end
end
redis.call('HSET', KEYS[1], unpack(tombs))
redis.call('HSET', KEYS[2], unpack(fields))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return {1, redis.call('HLEN', KEYS[2])}
