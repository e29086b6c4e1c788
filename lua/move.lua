-- Moves reservations of one SKU along: confirmed, paid or released, each once per order number.
-- Why atomic: the record, the numbers, the tombstone and the watermark must change together, or a crash would return a
-- unit twice or never.
-- A live order lies beside its buyer's mark only as long as the mark names another live one; once that is released, the
-- next confirmed or paid brings it under the mark.
-- A confirmed or paid number that Redis does not know is adopted: its unit, record and mark are booked again; what is
-- not there is booked in `over` (total - over stays S), and every release pays `over` first.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- ARGV[1] count number
-- ARGV[2...] to (c confirmed, p paid, r released), userId, orderNo, quantity, reservedAt, reason ('' unless released); for each move
-- Returns {1, codes, before, after}: codes joined by blanks, 1 done, 2 already, 3 adopted, 4 unknown, 5 refused
--   (paid and to be released, released and to be confirmed, or a record that is none);
--   before and after are the units available.
-- Returns {-1} not warmed, {-8} corrupt: nothing was written.
-- @include tag numbers record

if not epoch_of(KEYS) then return {-1} end
local n = read_numbers(KEYS[5])
local sale = redis.call('HMGET', KEYS[1], 'waiting', 'low', 'busy')
local waiting, low = count_of(sale[1]), count_of(sale[2])
if not (n and waiting and low) then return {-8} end
local before = n.available

local count = tonumber(ARGV[1])
local users = {}
for i = 1, count do users[i] = ARGV[6 * i - 3] end
local records = redis.call('HMGET', KEYS[6], unpack(users))

local codes, changed, fields, tombs, tombstones, moved = {}, {}, {}, {}, {}, {}
local function change(field, record)
  if not changed[field] then fields[#fields + 1] = field end
  changed[field] = record
end
local function take_back(quantity)
  local paid = math.min(n.over, quantity)
  n.over, n.total, n.available = n.over - paid, n.total - paid, n.available + quantity - paid
end

for i = 1, count do
  local at = 6 * i - 4
  local to, user, order_no, quantity, reserved_at, reason =
    ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5]
  local field = user
  local record = changed[user] or records[i]
  local mark_state, mark_no = parse_record(record)
  local strange = type(record) == 'string' and not mark_state -- left alone, for the reconciler to report
  if mark_no ~= order_no then
    -- An adopted order whose buyer had another live number lies beside his mark.
    field = ' ' .. user .. ' ' .. order_no
    record = changed[field] or redis.call('HGET', KEYS[6], field)
  end
  local state, _, held, held_at, token = parse_record(record)
  if type(record) == 'string' and not state then strange = true end
  local home = field
  if to ~= 'r' and (not mark_state or mark_state == 'r') then home = user end
  if strange then codes[i] = 5
  elseif state then
    local units = tonumber(held) + 0.0
    if state == 'r' then codes[i] = to == 'r' and 2 or 5
    elseif state == to or (state == 'p' and to == 'c') then
      codes[i] = 2
      if home ~= field then
        change(home, record)
        moved[#moved + 1], codes[i] = field, 1
      end
    elseif state == 'p' then codes[i] = 5
    -- A record that claims more than the numbers hold is as strange as one that cannot be read.
    elseif state == 'h' and (units > n.pending or waiting < 1) then codes[i] = 5
    elseif state == 'c' and units > n.frozen - n.pending then codes[i] = 5
    else
      if state == 'h' then n.pending, waiting = n.pending - units, waiting - 1 end
      if to ~= 'c' then n.frozen = n.frozen - units end
      if to == 'p' then n.sold = n.sold + units end
      if to == 'r' then
        take_back(units)
        tombs[#tombs + 1], tombs[#tombs + 2] = order_no, reason
        tombstones[order_no] = true
      end
      change(home, to .. '|' .. order_no .. '|' .. held .. '|' .. held_at .. '|' .. token)
      if home ~= field then moved[#moved + 1] = field end
      codes[i] = 1
    end
  elseif tombstones[order_no] or redis.call('HEXISTS', KEYS[2], order_no) == 1 then codes[i] = to == 'r' and 2 or 5
  elseif to == 'r' then codes[i] = 4
  else
    local taken = math.min(n.available, quantity)
    n.available, n.over, n.total = n.available - taken, n.over + quantity - taken, n.total + quantity - taken
    if to == 'p' then n.sold = n.sold + quantity else n.frozen = n.frozen + quantity end
    change(home, to .. '|' .. order_no .. '|' .. whole(quantity) .. '|' .. reserved_at .. '|')
    codes[i] = 3
  end
end

if #fields > 0 then
  local writes = {}
  for i = 1, #fields do writes[2 * i - 1], writes[2 * i] = fields[i], changed[fields[i]] end
  redis.call('HSET', KEYS[6], unpack(writes))
  if #moved > 0 then redis.call('HDEL', KEYS[6], unpack(moved)) end
  if #tombs > 0 then redis.call('HSET', KEYS[2], unpack(tombs)) end
  redis.call('HSET', KEYS[5], 'total', whole(n.total), 'available', whole(n.available), 'frozen', whole(n.frozen),
    'sold', whole(n.sold), 'pending', whole(n.pending), 'over', whole(n.over))
  local busy = sale[3]
  if busy == '1' and waiting <= low then busy = '0' end
  redis.call('HSET', KEYS[1], 'waiting', whole(waiting), 'busy', busy)
end
return {1, table.concat(codes, ' '), whole(before), whole(n.available)}
