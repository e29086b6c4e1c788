-- Looks up reservations by buyer, or by buyer and order number.
-- Why atomic: record and tombstone must be of one moment.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- ARGV[1] count number
-- ARGV[2...] userId, orderNo ('' for whatever the buyer's mark says); for each
-- Returns {1, version, records, reasons}: records joined by blanks, '-' for none, '?' for what is no
--   record; reasons of the released ones joined by |.
-- Returns {-1} not warmed.
-- @include tag record

if not epoch_of(KEYS) then return {-1} end
local count = tonumber(ARGV[1])
local users = {}
for i = 1, count do users[i] = ARGV[2 * i] end
local marks = redis.call('HMGET', KEYS[6], unpack(users))
local records, reasons = {}, {}
for i = 1, count do
  local user, order_no = ARGV[2 * i], ARGV[2 * i + 1]
  local record = marks[i]
  local state, no = parse_record(record)
  if order_no ~= '' and no ~= order_no then
    record = redis.call('HGET', KEYS[6], ' ' .. user .. ' ' .. order_no)
    state, no = parse_record(record)
    if not state and redis.call('HEXISTS', KEYS[2], order_no) == 1 then
      record, state, no = 'r|' .. order_no .. '|0|0|', 'r', order_no
    end
  end
  if state == 'r' then
    local reason = redis.call('HGET', KEYS[2], no)
    reasons[#reasons + 1] = type(reason) == 'string' and reason or ''
  end
  if state then records[i] = record
  elseif type(record) == 'string' or type(marks[i]) == 'string' and not parse_record(marks[i]) then records[i] = '?'
  else records[i] = '-' end
end
return {1, redis.call('HGET', KEYS[1], 'version'), table.concat(records, ' '), table.concat(reasons, '|')}
