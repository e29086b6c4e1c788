-- Shared by every script. KEYS[1..4] are sale, released, owed, batch; scripts of one SKU add stock and done as 5 and 6.
-- All keys of a tag carry one epoch, written by warm-up: hashes in the field ' ', the sorted set as member ' <epoch>'
-- (a blank is outside the alphabet of ids). A key that is gone, or came back from another time, must read as
-- "not warmed" and never as "empty": an empty ledger would sell every unit again.
local function epoch_of(keys)
  local epoch = redis.call('HGET', keys[1], ' ')
  if type(epoch) ~= 'string' or tonumber(epoch) == nil then return nil end
  if not tonumber(redis.call('ZSCORE', keys[3], ' ' .. epoch) or '') then return nil end
  for i = 2, 6 do
    if i ~= 3 and keys[i] and redis.call('HGET', keys[i], ' ') ~= epoch then return nil end
  end
  return epoch
end

-- 1000.0 and not 1000: the interpreter of ioredis-mock has whole numbers of 32 bits beside the doubles of real Redis.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000.0 + math.floor(tonumber(time[2]) / 1000)
end

-- Doubles hold whole numbers exactly up to 2^53; '%.0f' never writes an exponent or a fraction.
local function whole(number)
  return string.format('%.0f', number)
end
