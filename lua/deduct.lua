-- Takes units for a batch of buyers of one SKU: checks, marks, counts and records the message that is now owed.
-- Why atomic: between any two of these steps another buyer could take the same unit, or a crash could leave a unit
-- taken that nobody knows of.
-- A replay (same order number, or same token) is answered from the record before state, window and stock are looked at.
-- Everything is decided before the first write; a batch that takes nothing writes nothing.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- KEYS[7...] token, one for each candidate whose token is a stored one
-- ARGV[1] version string
-- ARGV[2] scripts string, the caller's script set
-- ARGV[3] seenEpoch number, the highest the caller has seen
-- ARGV[4] seenSeq number, the highest the caller has seen under seenEpoch
-- ARGV[5] batchId string, '' when nothing is owed
-- ARGV[6] message string, all candidates as JSON
-- ARGV[7] owedAfterMs number, from when the relay may send the batch
-- ARGV[8] count number
-- ARGV[9...] userId, record (as it will stand if the units are there), token ('' without, or its issue and its index in
--   KEYS, 0 if not stored, joined by a blank); for each candidate
-- Returns {1, epoch, seq, codes, details}; codes and details joined by blanks, one code for each candidate:
--   1 reserved, 3 reserved by an earlier run of this very batch (the client sends again after a
--   reconnect), 0 sold out, 2 replayed (detail: record),
--   -2 version mismatch, -3 script mismatch, -5 not open (opensAt),
--   -6 ended, -7 stopped, -8 corrupt record, -10 already bought (orderNo), -11 not enough (available), -12 busy,
--   -13 token missing, -14 token revoked, -15 over the limit (maxPerOrder), -16 this number was released.
-- Returns {-1} not warmed, {-4} rewound, {-8} corrupt: for the whole batch.
-- @include tag numbers record

local epoch = epoch_of(KEYS)
if not epoch then return {-1} end

local sale = redis.call('HMGET', KEYS[1], 'state', 'opensAt', 'endsAt', 'version', 'tokens', 'tokenEpoch', 'maxPerOrder',
  'high', 'waiting', 'busy', 'seq', 'scripts')
local n = read_numbers(KEYS[5])
local opens_at, ends_at, token_epoch = count_of(sale[2]), count_of(sale[3]), count_of(sale[6])
local max_per_order, high, waiting, seq = count_of(sale[7]), count_of(sale[8]), count_of(sale[9]), count_of(sale[11])
if not (n and opens_at and ends_at and token_epoch and max_per_order and high and waiting and seq) then return {-8} end
if tonumber(epoch) < tonumber(ARGV[3]) or (tonumber(epoch) == tonumber(ARGV[3]) and seq < tonumber(ARGV[4])) then
  return {-4}
end

local now = now_ms()
local shut -- why a candidate that is no replay is refused, whoever it is
local shut_detail
if sale[4] ~= ARGV[1] then shut = -2
elseif sale[12] ~= ARGV[2] then shut = -3
elseif sale[1] ~= 'open' then shut = -7
elseif now < opens_at then shut, shut_detail = -5, whole(opens_at)
elseif now >= ends_at then shut = -6 end
local busy = sale[10] == '1'

local count = tonumber(ARGV[8])
local users = {}
for i = 1, count do users[i] = ARGV[3 * i + 6] end
local records = redis.call('HMGET', KEYS[6], unpack(users))

local codes, details, writes, seen = {}, {}, {}, {}
local units, orders = 0, 0
for i = 1, count do
  local at = 3 * i + 6
  local user, own_record = ARGV[at], ARGV[at + 1]
  local _, order_no, quantity, _, token_id = parse_record(own_record)
  quantity = tonumber(quantity)
  local issue, token_key
  if ARGV[at + 2] ~= '' then issue, token_key = string.match(ARGV[at + 2], '^(%d+) (%d+)$') end
  local found = seen[user] or records[i]
  local state, found_no, found_token
  local code, detail = 1, nil
  if type(found) == 'string' then
    state, found_no, _, _, found_token = parse_record(found)
    if not state then code = -8
    elseif found == own_record and redis.call('HEXISTS', KEYS[4], ARGV[5]) == 1 then code = 3
    elseif state ~= 'r' and (found_no == order_no or (issue and found_token == token_id)) then code, detail = 2, found
    elseif found_no == order_no then code = -16
    elseif state == 'r' then
      -- Only this buyer can be re-sending a number before the one his record names: released, or adopted beside it.
      local beside = redis.call('HGET', KEYS[6], ' ' .. user .. ' ' .. order_no)
      local beside_state = parse_record(beside)
      if beside_state and beside_state ~= 'r' then code, detail = 2, beside
      elseif beside_state or redis.call('HEXISTS', KEYS[2], order_no) == 1 then code = -16 end
    end
  end
  if code == 1 then
    if shut then code, detail = shut, shut_detail
    elseif quantity > max_per_order then code, detail = -15, whole(max_per_order)
    elseif sale[5] == 'required' and not issue then code = -13
    elseif issue and tonumber(issue) < token_epoch then code = -14
    elseif issue and token_key ~= '0' and redis.call('EXISTS', KEYS[tonumber(token_key)]) ~= 1 then code = -14
    elseif state and state ~= 'r' then code, detail = -10, found_no
    elseif busy then code = -12
    elseif n.available - units < quantity then
      local left = n.available - units
      if left == 0 then code = 0 else code, detail = -11, whole(left) end
    else
      units, orders = units + quantity, orders + 1
      seen[user] = own_record
      writes[2 * orders - 1], writes[2 * orders] = user, own_record
      if waiting + orders >= high then busy = true end
    end
  end
  codes[i] = code
  if detail then details[#details + 1] = detail end
end

if orders > 0 then
  seq = seq + 1
  local batch_id = ARGV[5]
  if batch_id ~= '' then
    redis.call('HSET', KEYS[4], batch_id, ARGV[6], ' ' .. batch_id, whole(now))
  end
  redis.call('HSET', KEYS[6], unpack(writes))
  redis.call('HSET', KEYS[5], 'available', whole(n.available - units), 'frozen', whole(n.frozen + units),
    'pending', whole(n.pending + units))
  redis.call('HSET', KEYS[1], 'seq', whole(seq), 'waiting', whole(waiting + orders), 'busy', busy and '1' or '0')
  if batch_id ~= '' then redis.call('ZADD', KEYS[3], whole(now + tonumber(ARGV[7])), batch_id) end
end
return {1, epoch, whole(seq), table.concat(codes, ' '), table.concat(details, ' ')}
