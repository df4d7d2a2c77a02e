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
// none. That is why the table of buckets can be bounded: package account keeps it.
//
// # What debt means
//
// That is for the [Mode] to say:
//
//   - Fair, the usual one, lets nobody wait while the backend has room. When it
//     has none, debt makes a request dearer, and who is cheap goes first. See the
//     gate, below.
//   - Observe charges, ranks and counts, and delays nobody. For the first day.
//   - Cap is a hard ceiling. A request of a key in debt waits until the debt is
//     paid, before the backend sees it; those behind it leave one by one as each
//     is paid for. A single class can be capped in every other mode but Observe.
//   - Cooperative is the original's way: a request runs at once, and its response
//     is held until the debt is paid. A crawler that waits for its answer slows
//     down, and nobody has to guess what a request will cost.
//
// Who would have to wait longer than MaxHold is refused at once, as is who finds
// the waiting room full. Refusing charges nothing: it must not prolong what it
// answers. In shadow all this is only told.
//
// # The gate
//
// In Fair mode requests queue here and not before the backend, whose own queue
// knows nothing of clients. The backend has two resources, CPUs and workers, and
// the gate shares out both. Five ideas make the order.
//
// A ladder of sizes. With two CPUs, two long pages run as fast as can be; eight run
// at a quarter of the speed, and so does the small page that comes then. But a small
// page is done soon beside two long ones: what holds it up are those of its own size.
// So sizes make rungs: up to 25, 100, 400 ms, 1.6, 6.4, 25.6 s, and more. A request may
// compute while there is room on its rung, that is, while fewer than n that are as
// short or shorter do. n is the number of CPUs, and more where the CPUs are measured
// to be idle because pages wait for a database. What is longer does not count, but for
// the next half of a rung: pages whose sizes lie at a bound have the room of one rung.
// And where more of the longer ones compute than have room there, as they came as some that
// wait, there is room for as many more: two pages beside twenty of those would crawl.
// A request that turns out longer than was guessed climbs, and makes room where it
// was. Nobody has to say what is light on this site and what is heavy.
//
// Everybody in turn. Of those that may go, the one of the least rank does: the reading
// of a clock as it came, plus what it will cost by its client's share, plus what the
// client is ahead of the clock. The clock advances with the service that is given, so
// that everybody's turn comes. A client has a lane for each rung, and only the first
// of a lane competes, so that twenty connections get no more than one. An address with
// many sessions is divided among them: sixteen cookies weigh as the clients behind it do,
// eight at most. One without sessions is divided by its User-Agents and weighs as one.
//
// Who is ahead leaves room. A client that had half a CPU-second more than its share is
// ahead. Those who are within theirs pass it, up to 100 ms, and up to 400 ms while CPUs
// are idle, or the kernel takes them from who is ahead ([Limiter.Preempts]): its requests
// do not count for their room. A long request of one who is ahead starts only where the
// others have left a CPU lately, as it takes its part for seconds, whoever comes then; but it
// waits for none that is much longer, which may take minutes. And one whose turn has come does
// not wait for ever behind shorter ones of those who are ahead.
//
// Debt is a price. The bucket's debt multiplies what the request is taken to
// cost, up to nine times. A network in debt makes its innocent members only a
// little dearer, if they owe nothing themselves; strangers, too.
//
// Strangers are one flow. Addresses that were never seen share one turn, so that a
// crawler with a new address for each request competes with itself. Together they
// have at least a third of the machine. Who takes their turn is decided as it comes:
// who came back with a cookie, or asks for the parts of its page; who asks for what
// people read; who has had the fewest answers; who came first. Once somebody has waited
// for a second, which is a person's patience, the newest goes first: where more come
// than can be served, an answer to who came first is an answer to who has left. Those
// of each size take turns, so that a page of 110 ms does not wait behind pages of 90 ms
// for ever. After half a minute and a few answers a client is known, for half a day at
// least.
//
// Beside that, a client's standing, the evidence that it is a person's browser,
// multiplies its share. It does nothing while there is room.
//
// # Sites
//
// A backend may have several sites, [Policy].Sites. Then all of the above is within a site:
// its clients, strangers and robots have a clock of their own, whoever they are elsewhere.
// Above them the sites take turns by start tags, which their requests move by what they cost
// over the site's share, and whose clock is at the least tag of those who want something. The
// ladder and the workers are one for all: a site that had its share, and is ahead of one that
// waits for room, leaves that room, once as many compute as there are CPUs; but its light
// requests go while they are by themselves within its share. While another one is there, a
// site may hold three quarters of the workers that are not kept for short requests. What is
// no named site is one more, so that who makes names up gains nothing. Beside sites that
// delay nobody the others go by what is their own at the backend, and send as many requests
// there as their share makes of what those have.
//
// # Who holds a worker
//
// Whatever is at the backend has a worker until it ends. A request that hardly
// computes, as it waits for a database or for news, takes no room on the ladder; but it
// holds a worker, for which there is a ladder of its own: each rung leaves some workers
// to the shorter ones. What a worker is worth is a part of the CPUs: of sixteen workers
// and two CPUs, one that is held for 8 s is one CPU-second, whether it computes or not.
// Of the sixteen, requests of the longest rung, computing or not, may hold eleven; those
// of more than 100 ms fourteen; the last two stay for what is known to be short. While
// requests that compute wait, those that only hold leave them a worker for each CPU.
//
// Of these eleven each key may hold the part that its class has, [Budget].Workers:
// usually an address half, which is five, its /24 three quarters, its /16 all of
// them, strangers together half. A request over that is parked: it does not
// compete until its keys hold fewer, and keeps nobody else waiting. Requests that
// compute get a worker for each CPU all the same, also one at a time of which nobody knows
// whether it does.
//
// A client that leaves before its answer leaves an orphan: the backend works on.
// The orphan keeps its place until the caller settles it. A client with two of
// them, or a quarter of the eleven if that is more, has its next request that is
// not short parked, also one that nobody knows yet.
//
// # What nobody knows
//
// A request of an unknown kind waits on the rung of 1.6 s, or a longer one if the like
// of it was seen to take longer. If nothing speaks against that it is light, it may be
// tried beside that, one at a time, on a kept worker if need be: behind a queue of dear
// pages a style sheet would stay unknown. After one that was not light there is a pause
// of 200 ms, in which all that wait are looked at again. One that was taken for light
// and is not costs its client the right to a kept worker, while it is ahead, until it
// ends.
//
// # How many workers there are
//
// Nobody tells it. The gate begins with the configured number, which is also a
// ceiling, or with 16 or 8 for each CPU, if that is more. Then it learns:
//
//   - More are proved where a known kind is answered in its usual time although
//     so many ran beside it, or by connections that the backend accepts, which
//     the caller opens for a moment when somebody lacks a worker. Now and then more
//     light requests are let in than there are workers known, to prove it. An
//     event-driven backend proves more each time.
//   - Fewer are seen by connections that wait to be accepted; and, where nobody can
//     look at these, by light requests that are late although the CPUs are not full.
//     Two short requests always go, as all this may be wrong, unless the number is
//     configured.
//   - php-fpm's configuration is believed, for a minute without a doubt.
//
// What was refuted is tried again after 5 s, then after twice as long each time,
// up to ten minutes. [Limiter.Workers] tells the number and what it was learnt by.
//
// # A crawl at the gate
//
// Two CPUs, so that there is room for two on each rung; every client's share is 0.1, so
// that a page of 0.4 CPU-seconds counts as 4 on the clock, and twice that for a client
// without debt. All are known.
//
//	 time   clock   what happens
//	0.00 s  0.0     the crawler asks for three pages of 0.4 s. The first ranks 0 + 8
//	                and goes; with that the crawler is 4 ahead, the second ranks
//	                4 + 8 and goes, too; the third ranks 8 + 8 and waits
//	0.10 s  0.0     a person asks for a page of 20 ms: nothing as short computes, and
//	                it goes at once
//	0.12 s  0.1     it is done: 0.02 CPU-seconds for shares of 0.2 in all
//	0.20 s  0.1     somebody else asks for a page of 0.4 s: 0.1 + 8. Two of its size
//	                compute; they are ahead of their share only by what they take
//	                now, less than half a CPU-second: it waits
//	0.40 s  2.1     the crawler's first page is done, 0.4 for shares of 0.2. The
//	                other page goes, before the crawler's third
//	0.40 s  4.1     the crawler's second page is done. Nobody else wants the room:
//	                the third goes
//
// # Newcomers in a crowd
//
// The same machine. Sixteen strangers come at once, each for a page of 0.15
// CPU-seconds, of a kind that is known.
//
//	 time   waiting  what happens
//	0.00 s     14    they are one flow, first come, first served: two go
//	0.90 s      2    six pairs are done, and the seventh goes
//	0.95 s      3    a newcomer comes. It would be the last
//	1.00 s      3    the two that came first and still wait lose patience
//	1.05 s      1    the seventh pair is done. From now on the newest goes first: the
//	                 newcomer, and the newer one of the two
//	1.10 s      2    another newcomer comes, and is the next
//	1.20 s      0    it goes, and the last of the sixteen, as there is room
//	6.00 s      0    nobody has lost patience for 5 s: first come, first served again
//
// # Somebody holds workers
//
// Sixteen workers, two CPUs; the address may hold five of the eleven. Each of its
// two pages waits 3 s for a database, and is known to. Event streams are known to
// stay.
//
//	 time   not short  orphans  what happens
//	0.0 s    2 of 11      0     the address asks for two pages: both go, and hold
//	                            a worker each without room on the ladder
//	0.1 s    2 of 11      2     it hangs up on both. The backend works on
//	0.2 s    2 of 11      2     it opens six event streams. With two orphans it
//	                            gets no worker for them: all six wait
//	0.3 s    2 of 11      2     its style sheet, and a person's page, are short:
//	                            both go at once
//	3.0 s    5 of 11      1     the backend has finished one of the pages. With one
//	                            orphan the address may hold workers, up to five:
//	                            four streams go
//	3.0 s    5 of 11      0     the other page is done, and the fifth stream goes.
//	                            The sixth waits until one ends; after MaxHold it is
//	                            refused. Six of the eleven are left to others
//
// # One crawl under a cap
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
// Beside that somebody calls [Limiter.Advance] when it asks to be called. Who wants to know
// why a request waits, and behind how many, asks [Limiter.Outlooks], which lets a copy of
// the gate run on.
//
// # The files
//
// Requests, from their coming to their end:
//
//	arrival.go      what is to be known of a request
//	limiter.go      the story of one: begin to read here
//	decide.go       what its keys' debts mean for it
//	verdict.go      what was decided
//	ticket.go       its state, and its reservations
//	foresee.go      whether it would be refused
//	waiting*.go     the waiting room of caps
//
// What is kept and told:
//
//	policy.go       what the limiter is told to do
//	key.go          keys, and what a class gives them
//	accounts.go     what is kept with an account
//	balance.go      how an account stands
//	forgive.go      a debt is forgiven
//	dump.go         all keys, as the doctor shows them
//	share.go        what other sidecars are told, and tell
//	sharestatus.go  how sharing fares
//	outbox.go       a queue for that
//
// The gate; what a request goes through there:
//
//	gate.go         it comes, and waits
//	lane.go         in a lane of its client
//	next.go         whether it goes next
//	run.go          it starts, runs and ends
//	reguess.go      it turns out longer or shorter as it waits
//
// Who goes first, and where:
//
//	flow.go         a client's turn, and the clock
//	elsewhere.go    the same client at other sites
//	address.go      clients of one address, and of a pool
//	strangers.go    those whom nobody knows
//	rank.go         the order of those that wait
//	ladder.go       room for each size
//	ahead.go        who makes room for whom
//	hold.go         workers, and who keeps them
//	workers.go      how many there are
//	measure.go      how busy the CPUs are
//
// Several sites:
//
//	site.go         what each has
//	sitenext.go     whose turn it is
//	siteturn.go     what moves that
//	sitestate.go    how they stand
//	beside.go       sites that delay nobody
//
// Why a request waits, and how the gate stands:
//
//	gatestate.go    the gate in figures
//	outlook.go      what a request has before it
//	barrier.go      what keeps it
//	why.go          the same in words
//	replica.go      a copy of the gate that runs on
//
// # Locks
//
// They are taken in this order: that of who replaces the policy, the waiting room's, the
// gate's, a ticket's, and last a shard's of the table of accounts or that of who is known.
// Where there is a gate, its lock is the only one that all requests take, for as long as it
// takes to move a few numbers.
package limiter
