-- Adds units to an SKU, or withdraws them, once per operation id.
-- Why atomic: the id must be recorded with the units, or a repeated call would add them twice.
-- Withdrawn units that are already reserved are booked in `over`: the database closes what it cannot give.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- ARGV[1] units number, negative to withdraw
-- ARGV[2] operationId string
-- ARGV[3] maxUnits number, bound of S
-- Returns {1} done or {2} already done; {0} S would leave its bounds; {-1} not warmed, {-8} corrupt.
-- @include tag numbers

if not epoch_of(KEYS) then return {-1} end
local n = read_numbers(KEYS[5])
if not n then return {-8} end
local field = ' ' .. ARGV[2]
if redis.call('HEXISTS', KEYS[5], field) == 1 then return {2} end
local units = tonumber(ARGV[1])
local sellable = n.total - n.over + units
if sellable < 0 or sellable > tonumber(ARGV[3]) then return {0} end
if units >= 0 then
  local paid = math.min(n.over, units)
  n.over, n.total, n.available = n.over - paid, n.total + units - paid, n.available + units - paid
else
  local taken = math.min(n.available, -units)
  n.available, n.total, n.over = n.available - taken, n.total - taken, n.over - units - taken
end
redis.call('HSET', KEYS[5], field, ARGV[1], 'total', whole(n.total), 'available', whole(n.available), 'over', whole(n.over))
return {1}
