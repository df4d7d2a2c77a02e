package redis

// An account in Redis is one integer: the Unix time, in microseconds of the
// server's clock, at which the key will have its whole burst again, were it
// charged with nothing more. A charge moves it on by the time in which its cost is
// earned. An account whose time has come is full; it expires half a minute later
// than that, or than its longest request ran: so that others that ran beside it are
// not paid from the same time again. (The virtual scheduling of the generic cell rate algorithm, ITU-T I.371.)
//
// Keys that owe are told of in a log, a stream of bounded length that all
// sidecars read.

// chargeScript charges an account, and tells of the key if it owes then. It
// answers how long the key owes, 0 or below if it does not, and the time. A charge
// that comes after its deadline, as the server stood still, is not made: the
// answer is empty but for the time.
//
// KEYS are the account and the log. ARGV are, in microseconds, the charge, the
// burst, the most that the account may be in the future, and the deadline as Unix
// time, 0 for none; then the sealed key, empty for not to tell of it, how many entries
// the log keeps, and for how long, in microseconds, the requests ran that are charged:
// what was earned meanwhile pays for them, even of a key that had its whole burst.
const chargeScript = `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local deadline = tonumber(ARGV[4])
if deadline > 0 and now > deadline then
  return {now}
end
local charge, burst, last = tonumber(ARGV[1]), tonumber(ARGV[2]), now + tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
full = math.min(math.max(full, now - tonumber(ARGV[7])) + charge, last)
local kept = math.max(full - now, 0) + tonumber(ARGV[7]) + 30000000
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', math.ceil(kept / 1000)))
local owes = full - burst - now
if owes > 0 and ARGV[5] ~= '' then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*', 'k', ARGV[5], 'u', string.format('%.0f', full - burst))
  redis.call('PEXPIRE', KEYS[2], 3600000)
end
return {now, owes}
`

// readScript reads the log on from an entry: KEYS[1] is the log, ARGV are where to
// begin and how many entries to read at most. It answers the time in microseconds,
// and the entries.
const readScript = `
local clock = redis.call('TIME')
return {clock[1] * 1000000 + clock[2], redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])}
`

// clusterShards is in how many parts accounts and logs are divided in a cluster.
// An account and its log have to be in one slot.
const clusterShards = 16

// logLength is how many entries all logs keep at least, together. Newcomers learn
// from them who owes.
const logLength = 1 << 15
