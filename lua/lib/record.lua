-- A record is <state>|<orderNo>|<quantity>|<reservedAt>|<tokenId>, state h held, c confirmed, p paid, r released.
-- Returns state, orderNo, quantity, reservedAt, tokenId; nothing when it is not a record. Strict about the alphabet of
-- ids: what passes can be joined by blanks.
local function parse_record(record)
  if type(record) ~= 'string' then return nil end
  return string.match(record, '^([hcpr])|([!-{}~]+)|(%d+)|(%d+)|([!-{}~]*)$')
end
