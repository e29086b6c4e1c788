-- Reads the numbers of one SKU and the state of its sale.
-- Why atomic: the sums hold at one moment only.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- Returns {1, total, available, frozen, sold, pending, over, waiting, owed, state, version}; {-1} not warmed, {-8} corrupt.
-- @include tag numbers

if not epoch_of(KEYS) then return {-1} end
local n = read_numbers(KEYS[5])
if not n then return {-8} end
local sale = redis.call('HMGET', KEYS[1], 'waiting', 'state', 'version')
return {1, whole(n.total), whole(n.available), whole(n.frozen), whole(n.sold), whole(n.pending), whole(n.over),
  sale[1], whole(redis.call('ZCARD', KEYS[3]) - 1), sale[2], sale[3]}
