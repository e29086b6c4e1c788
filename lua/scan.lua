-- Walks the records of one SKU, some at a time (a record may come twice, none that stays is left out).
-- Why atomic: a walk over keys that changed under it must end, not report an empty sale.
-- KEYS[1] sale
-- KEYS[2] released
-- KEYS[3] owed
-- KEYS[4] batch
-- KEYS[5] stock
-- KEYS[6] done
-- ARGV[1] cursor string
-- ARGV[2] limit number
-- Returns {1, next, version, rows}: rows is field, record, … joined by line feeds; next '0' at the end. {-1} not warmed.
-- @include tag

if not epoch_of(KEYS) then return {-1} end
local page = redis.call('HSCAN', KEYS[6], ARGV[1], 'COUNT', ARGV[2])
local cells, rows = page[2], {}
local first = type(cells[0]) == 'string' and 0 or 1 -- a list within a list begins at 0 in ioredis-mock
for i = 1, #cells do rows[i] = string.gsub(cells[first + i - 1], '\n', ' ') end
return {1, page[1], redis.call('HGET', KEYS[1], 'version'), table.concat(rows, '\n')}
