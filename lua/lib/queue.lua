-- One consumer group a stream: an entry is deleted when it is acknowledged, so a second group would miss it.
local GROUP = 'workers'

-- What is handed out and not acknowledged. Where the group is gone (FLUSHALL, a restart without persistence): nothing.
local function pending(stream, from, to, count, ...)
  local found = redis.pcall('XPENDING', stream, GROUP, from, to, count, ...)
  if found.err then return {} end
  return found
end

-- The owner of an entry that was handed out, how often it was; nothing when it is acknowledged or was never handed out.
local function pending_of(stream, id)
  local found = pending(stream, id, id, 1)[1]
  if found then return found[2], found[4] end
end

local function delete(stream, id)
  redis.call('XACK', stream, GROUP, id)
  redis.call('XDEL', stream, id)
end

-- A group remembers each consumer for ever; one that holds nothing can be forgotten (it comes back with its next read).
local function forget_idle(stream, consumer)
  if #pending(stream, '-', '+', 1, consumer) == 0 then
    redis.pcall('XGROUP', 'DELCONSUMER', stream, GROUP, consumer)
  end
end
