-- A stored count, or nil for what is none: tonumber alone takes '0x10', '1e2', ' 5 ' and 'nan'.
local function count_of(text)
  if type(text) ~= 'string' or not string.match(text, '^%d+$') then return nil end
  local number = tonumber(text) + 0.0
  if number > 9007199254740991 then return nil end
  return number
end

-- total = available + frozen + sold, pending <= frozen, none negative, all whole. What breaks this is not written on.
local function read_numbers(stock)
  local v = redis.call('HMGET', stock, 'total', 'available', 'frozen', 'sold', 'pending', 'over')
  for i = 1, 6 do
    v[i] = count_of(v[i])
    if not v[i] then return nil end
  end
  local n = {total = v[1], available = v[2], frozen = v[3], sold = v[4], pending = v[5], over = v[6]}
  if n.total ~= n.available + n.frozen + n.sold or n.pending > n.frozen or n.over > n.total then return nil end
  return n
end
