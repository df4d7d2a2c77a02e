// Package limiter keeps an account of CPU time for every client, and decides
// from it when a request may go.
//
// # The model
//
// The currency is the CPU-second. A server with four cores makes four of them
// each second, whatever its pages are: a page that costs 2 s of CPU and one that
// costs 2 ms are alike to a limit in requests, and are a thousand times apart
// here.
//
// A request belongs to a [Key] in each of several classes: its address, the
// networks around that, its User-Agent. Every key has a token bucket:
//
//   - It earns credit all the time, [Budget].CPUs CPU-seconds per second: its
//     class's share of the machine.
//   - It saves what it does not use, up to [Budget].Burst.
//   - A request charges all of its keys with what it costs. Nobody knows that
//     beforehand, so that it is charged with a guess as it starts, with more if
//     it runs longer, and in the end with what it did cost: the difference is
//     taken or given back.
//   - A level below zero is debt. It is never more than the key earns in the
//     policy's Memory (two minutes), so that everybody is forgiven in the end.
//
// A key that is not known has its whole burst: a full bucket is the same as
// none. That is why the table of buckets can be bounded (see eviction in table).
//
// # What debt means
//
// That is for the [Mode] to say:
//
//   - Observe charges and counts, and delays nobody. For the first day.
//   - Cap is a hard ceiling. A request of a key in debt waits until the debt is
//     paid, before the backend sees it; those behind it leave one by one as each
//     is paid for. A single class can be capped in every mode.
//   - Cooperative is the original's way: a request runs at once, and its response
//     is held until the debt is paid. A crawler that waits for its answer slows
//     down, and nobody has to guess what a request will cost.
//
// Who would have to wait longer than MaxHold is refused at once, as is who finds
// the waiting room full. Refusing charges nothing: it must not prolong what it
// answers. In shadow all this is only told.
//
// # One crawl
//
// A crawler may use 0.4 CPUs and has saved 1 CPU-second (the default is 30). Its
// pages cost 0.8 CPU-seconds and take as long; the mode is cap.
//
//	 time  level            what happens
//	0.0 s   1.0 →  0.2      asks for a page: it owes nothing, goes, is charged 0.8
//	0.0 s   0.2 → -0.6      asks for another at the same time: goes, is charged 0.8
//	0.0 s  -0.6             a third has to wait: 0.6 at 0.4 a second are 1.5 s
//	0.8 s  -0.28            both are answered: they cost what was guessed
//	1.5 s   0.0 → -0.8      the third goes, and is charged
//	2.0 s  -0.6             a fourth waits for 1.5 s: one page each 2 s from here
//	                        on, which is 0.4 CPUs
//
// In cooperative mode the third runs at 0.0 s as well and is done at 0.8 s. Its
// response is then held until its own debt is paid, too: at 3.5 s.
//
// # Who calls what
//
// The [Limiter] is a state machine that is told the time. It starts no goroutine
// and never sleeps, so that a test plays an hour in a millisecond. A request's
// life is [Limiter.Arrive], wait for [Ticket.Decided], [Limiter.Progress] as it
// runs, [Limiter.Settle] when it has run, [Limiter.Leave] when it is answered.
// Beside that somebody calls [Limiter.Advance] when it asks to be called.
//
// Locks are taken in this order: the waiting room's, a ticket's, a shard's of the
// table, which guards its buckets. A request whose keys owe nothing takes only
// its own ticket's and those of its keys' shards.
package limiter
