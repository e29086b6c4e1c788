-- Walks the records of one SKU, the tombstones of its activity, or the fields of its stock, some at a time (one may come
-- twice, none that stays is left out).
-- Why atomic: a walk over keys that changed under it must end, not report an empty sale.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- ARGV[1] what string, done, released or stock
-- ARGV[2] cursor string
-- ARGV[3] limit number
-- Returns {1, next, version, rows}: rows is field, value, … joined by line feeds; next '0' at the end. {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local key = KEYS[6]
if ARGV[1] == 'released' then key = KEYS[2] elseif ARGV[1] == 'stock' then key = KEYS[5] end
local page = redis.call('HSCAN', key, ARGV[2], 'COUNT', ARGV[3])
local cells, rows = page[2], {}
local first = type(cells[0]) == 'string' and 0 or 1 -- a list within a list begins at 0 in ioredis-mock
for i = 1, #cells do
  local cell = cells[first + i - 1]
  if string.find(cell, '\n', 1, true) then cell = string.gsub(cell, '\n', ' ') end
  rows[i] = cell
end
return {1, page[1], redis.call('HGET', KEYS[1], 'version'), table.concat(rows, '\n')}
