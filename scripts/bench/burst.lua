-- wrk: one thread sends the requests of a file, counts the answers by status, and says when the last has come.
-- Arguments after `--`: a file with one "user token" a line, the path, the body, how many answers to wait for. The file
-- has as many lines more as there are connections, for those that are ahead of the last answers.

local ffi = require('ffi')
ffi.cdef('typedef struct { long sec; long nsec; } moment; int clock_gettime(int, moment *);')
local requests, wanted, sent, answered, statuses, began = {}, 0, 0, 0, {}, nil

local function now()
  local t = ffi.new('moment[1]')
  ffi.C.clock_gettime(1, t) -- CLOCK_MONOTONIC
  return tonumber(t[0].sec) + tonumber(t[0].nsec) / 1e9
end

function init(args)
  wanted = tonumber(args[4])
  for line in io.lines(args[1]) do
    local user, token = line:match('^(%S+) (%S+)$')
    requests[#requests + 1] = wrk.format('POST', args[2], {
      ['Host'] = wrk.headers['Host'],
      ['Content-Type'] = 'application/json',
      ['X-Demo-User'] = user,
      ['X-Seckill-Token'] = token,
    }, args[3])
  end
end

function request()
  began = began or now()
  sent = sent + 1
  return requests[sent]
end

function response(status)
  answered = answered + 1
  statuses[status] = (statuses[status] or 0) + 1
  if answered == wanted then
    for code, count in pairs(statuses) do io.write(string.format('status %d %d\n', code, count)) end
    io.write(string.format('seconds %.6f\n', now() - began))
    io.flush()
    wrk.thread:stop() -- ends the thread; wrk itself sleeps on until its time is up or SIGINT wakes it
  end
end

function done(_, latency, _)
  for i = 1, #latency do io.write(string.format('latency %d %d\n', latency(i))) end
  io.write('done\n')
end
