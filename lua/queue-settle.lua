-- Ends a hand-over: each entry is acknowledged (and deleted), given back, left for another try, or set aside.
-- Why atomic: an entry must be in one place only, the stream or the dead stream; and nobody may take one between the look
-- at its owner and the change.
-- KEYS[1] stream
-- KEYS[2] dead
-- ARGV[1] consumer string
-- ARGV[2] claimAfterMs number
-- ARGV[3...] id, what (ack, back, retry, dead), detail (how often it was handed out for back, ms to wait for
--   retry, the reason for dead); for each
-- Returns {1, id, …}: those set aside, now or by the same call before. What another consumer has taken over meanwhile is
--   his to retry or to set aside; acknowledged it is, by whomever.
-- @unpinned
-- @include queue

local stream, consumer, claim_after = KEYS[1], ARGV[1], tonumber(ARGV[2])
local reply = {1}

-- An entry that is due in n ms is one whose owner has been silent for claim_after - n.
local function leave(id, due_in, times)
  local idle = math.max(0, claim_after - due_in)
  redis.call('XCLAIM', stream, GROUP, consumer, 0, id, 'IDLE', idle, 'RETRYCOUNT', times, 'JUSTID')
end

local function set_aside(id, times, why)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    -- First what a full memory can refuse. A stranger's entry may have more fields than a call can take.
    redis.call('XADD', KEYS[2], '*', 'why', why, 'attempts', times, 'entry', id,
      unpack(entry[2], 1, math.min(#entry[2], 200)))
  end
  delete(stream, id)
end

for i = 3, #ARGV, 3 do
  local id, what, detail = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if what == 'ack' then delete(stream, id)
  else
    local owner, times = pending_of(stream, id)
    if owner == consumer then
      if what == 'back' then
        -- Given back already, by the same call before: not once more.
        if times == tonumber(detail) then leave(id, 0, times - 1) end
      elseif what == 'retry' then leave(id, tonumber(detail), times)
      else set_aside(id, times, detail) end
    end
    if what == 'dead' and (owner == consumer or not owner) then reply[#reply + 1] = id end
  end
end
return reply
