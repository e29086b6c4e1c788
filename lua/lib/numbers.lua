-- total = available + frozen + sold, pending <= frozen, none negative, all whole. What breaks this is not written on.
local function read_numbers(stock)
  local v = redis.call('HMGET', stock, 'total', 'available', 'frozen', 'sold', 'pending', 'over')
  for i = 1, 6 do
    local number = tonumber(v[i])
    if number == nil or number < 0 or number > 9007199254740991 or number ~= math.floor(number) then return nil end
    v[i] = number + 0.0
  end
  local n = {total = v[1], available = v[2], frozen = v[3], sold = v[4], pending = v[5], over = v[6]}
  if n.total ~= n.available + n.frozen + n.sold or n.pending > n.frozen or n.over > n.total then return nil end
  return n
end
