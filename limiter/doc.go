// Package limiter keeps an account of CPU time for every client, and decides from it when
// a request may go to the backend.
//
// # The model
//
// The currency is the CPU-second. A server with four cores makes four of them each second,
// whatever its pages cost. A limit in requests treats a page of 2 s like a page of 2 ms;
// this one does not.
//
// A request belongs to one [Key] in each of several classes: its address, the networks
// around the address, its User-Agent. Every key has a token bucket:
//
//   - It earns [Budget].CPUs CPU-seconds per second, its class's share of the machine.
//   - It saves what it does not use, up to [Budget].Burst.
//   - A request charges all of its keys. Its cost is a guess when it starts, grows if it
//     runs longer, and is replaced by the measured cost at its end.
//   - A level below zero is debt. A key owes at most what it earns in the policy's Memory
//     (two minutes), so every client is forgiven in the end.
//
// An unknown key has its whole burst. A full bucket and no bucket mean the same, so the
// table of buckets can be bounded: package account keeps it.
//
// # What debt means
//
// The [Mode] decides:
//
//   - Fair, the default, lets no request wait while the backend has room. When the backend is
//     full, debt makes requests count as more expensive, and cheap clients go first: see the
//     gate, below.
//   - Observe charges, ranks and counts, and delays no request. Use it on the first day.
//   - Cap is a hard ceiling. A request of a key in debt waits until the debt is paid, and the
//     requests behind it leave one by one. A single class can be capped in every mode
//     except Observe.
//   - Cooperative is the original's way. A request runs at once, and its response is held
//     until the debt is paid. A crawler that waits for its answers slows down, and the cost
//     need not be guessed.
//
// A request that would wait longer than MaxHold is refused at once. A full waiting room
// refuses the newest request of the longest queue. Refusing charges nothing, because it must
// not prolong the debt. In shadow, the limiter only reports these decisions.
//
// # The gate
//
// In Fair mode requests queue here instead of at the backend, whose queue knows nothing of
// clients. The backend has CPUs and workers, and the gate shares out both. Only tests can
// switch a rule off ([Policy.Without]). The brackets name the rule and the rows of package
// sim, or the unit tests, that fail without it.
//
// Sizes. A request has one of seven rungs of a ladder: up to 25, 100, 400 ms, 1.6, 6.4,
// 25.6 s, and longer.
//
//   - A request may compute while fewer than n requests compute that are as short or shorter.
//     Longer ones do not count, because a short request is soon done next to them.
//   - n is the number of CPUs. While requests wait it grows by a quarter if the CPUs are used
//     below 90 %, and doubles if that was so half a second before and they are used below 45 %.
//     It shrinks above 97 % (Grows: db-20-300ms, db-60-300ms).
//   - For the upper half of a rung, the lower half of the next rung counts as well (Halves:
//     nat+dist120, new+dist120-samepath).
//   - Up to 400 ms, each two requests that are longer by more than a rung make room for one
//     more (Beside: mixed, nat+crawl1). Light requests don't get that room in the second after
//     a light one turned out to be long (Distrust: heavy+again-40+redirect, misguess8addr).
//   - Each request that held a worker without computing, and then computes, makes room for one
//     more of any size (Uninvited: 2cpu-150workers-pages800ms-20x50+10s-spread=true).
//   - A request that runs longer than guessed climbs (Climbs: longjobs-flat,
//     exports60s-3conn-pages300ms). A waiting request moves when its guess changes (Reguesses:
//     misguess-control, longjobs-light).
//   - A request that waits for something else in 7/8 of its time, and for a second or more,
//     or that is seen not to compute, takes no room (Waits: halves-20conn-2.5s-pages100ms,
//     polls120s-8conn-pages800ms).
//
// Turns. Of the requests that may go, the one of the lowest rank goes.
//
//   - The rank is the clock at its arrival, plus its cost over its client's share, times 2,
//     plus the client's lead on the clock (Lead: natflat20+crawler-inside-cookiesfalse,
//     flat+follow-1x40+redirect). The clock advances with the service given, by start-time
//     fair queueing.
//   - A client has one lane for each size. Only the head of a lane competes.
//   - The client's standing multiplies its share by 1/2 to 8 (Standing: flat120, flat120think).
//   - An address with sessions is divided among them, and weighs up to eight clients (Behind:
//     flatnat-4cpu). Without sessions, its User-Agents divide it (Faces:
//     natflat20+flatcrawler-inside-cookiesfalse). Robots that anyone can invent are one client.
//   - Debt multiplies a request's cost by up to 9 (Debt: flash100-150ms+crawl,
//     flash500-60ms+crawl). A client that owes nothing bears a quarter of its networks' debt
//     (Inherits: flatnat-1cpu-crowded, natflat20+crawler-inside-cookiesfalse).
//
// Leaving room. A client is over its share (overShare) if its lead is more than half a
// CPU-second.
//
//   - Clients under their share pass it up to 100 ms and above 1.6 s, and up to 400 ms while
//     CPUs are idle or the kernel preempts (Passes: dbcrawl-300ms-300ms, flat1+steps).
//   - If a client is over its share, its requests of more than 400 ms start only if the other
//     clients left a CPU free in the last 10 s (Leaves: exports60s-20conn-pages300ms, lj-flat-10s-12conn).
//   - Requests that are longer by more than a rung don't count for that (LeavesLonger:
//     exports60s-3conn-pages300ms, exports60s-20conn-pages300ms). One more goes after a wait or
//     on an idle CPU (LeavesMore: natflat20+crawler-inside-cookiesfalse), and any number next to
//     uninvited ones.
//
// Strangers. Unknown clients share one turn (Strangers: flatshot, stream-40x1-cold). A client
// is known after half a minute and five answers.
//
//   - Together they have at least half of all other shares (OthersPart:
//     heavy+follow-40+redirect, heavy+again-40+redirect). Their sizes take turns. What they
//     got less than their share counts for four requests at most (Credit:
//     new+dist120-samepath).
//   - Among them, clients that kept a cookie go first (Passed: heavy+again-40+redirect,
//     heavy+follow-40+redirect), and short parts of a page that was just served (Parts:
//     new+shot40-parts), then clients with fewer answers (Fewest:
//     new+dist120-samepath), then those that waited for less than a second (Stale:
//     heavy+follow-roam-10x4+redirect), then the first to come.
//   - For five seconds after one waited for a second, the newest of those with fewer than
//     five answers goes first, because the older ones have left (Newest: new+lightshot100,
//     res-flat-13/s).
//
// Workers. Every request at the backend holds a worker, also after its client disconnected.
//
//   - Five of sixteen, or two for each CPU and one, are kept for short requests (Kept:
//     stream-40x1, poll-20). Requests that came as short ones and are not use these up
//     (Misjudges: read-spool-32MB-1x24-cold, misguess8addr).
//   - Requests that compute little leave a worker for each CPU to requests that wait for one
//     (HoldersLeave: 2cpu-16workers-pages3000ms-20x5+0.001s-spread=true).
//   - Each key holds at most its class's part of the others (KeysHold: waiting-people+holds-20),
//     and strangers half (StrangersPart: waiting-people+strangers-hold). A stranger's request
//     may exceed that half if it computes next to a free CPU and its client holds no worker
//     (MayCompute: polls120s-8conn-pages800ms, exports60s-3conn-pages100ms-1cpu).
//   - No part binds while the number of workers is unknown, or while more than twice as many
//     are free as are kept and as there are CPUs (Slack: 20x5ms+0.3s-150w-queue).
//
// Unknown kinds. A request of an unknown kind waits on the rung of 1.6 s. One at a time is
// tried next to the ladder (Probes: stream-24x1-cold, hangup-8addr-30ms-cold), with a pause of
// 200 ms after one that was not light (ProbePause: exports60s-20conn-pages300ms,
// lj-flat-10s-12conn).
//
// A full queue. No client has a limit of its own while the queue has room. A full queue refuses a
// request of the flow with the most work: one of its longest, and parts of a page last
// (TestWhoIsShed, TestPartsAreShedLast). A request that waited for MaxHold, a cap's wait
// included, is refused (TestNobodyWaitsLongerThanMaxHold).
//
// # Sites
//
// A backend may serve several sites, [Policy].Sites. Every other request belongs to one more
// site.
//
//   - Each site has a clock of its own for its clients and strangers. The sites take turns by
//     start tags, which move by a request's cost over the site's share.
//   - A site that recently had more than its part leaves room to the others (SitesLeave),
//     except while a CPU is idle (SitesIdle).
//   - A long request charges its site while it runs (SitesAtOnce; all of them: the smallest has
//     the most expensive pages).
//   - No site is ahead by more than 20 s of the machine (SitesLead: a thousandth).
//
// # How many workers there are
//
// See workers.go.
//
// # The constants
//
// The numbers that were chosen, by the rule that they are of, whose rows are above.
//
//	firstRung 25 ms, perRung 4, rungs 7      Halves, Climbs: the sizes
//	lightRung, passRung, unknownRung         Passes, Probes, SitesAtOnce: up to 100 ms, 400 ms; 1.6 s
//	idleBelow 0.90, fullAbove 0.97, byPart 4 Grows
//	waitsPart 7/8                            Waits
//	baseMultiplier 2, debtMultiplier 16      Debt
//	inheritedDebt 1/4                        Inherits
//	faces 8                                  Faces
//	aheadFrom 0.5 s                          Passes, Leaves
//	usedFor 10 s                             Leaves, Kept: what counts as recent
//	longPart 1.5                             LeavesMore
//	patience 1 s                             Stale, Newest, Distrust; Waits
//	impatientFor 5 s                         Newest
//	strangerFor 30 s, strangerAnswers 5      Strangers; Fewest
//	leastStrangers 1/2, othersPart 1/2       OthersPart
//	strangersCredit 4                        Credit
//	keptOf16 5, keptForKnown 2               Kept
//	briefRung                                Kept: up to 1.6 s, by the part of the workers
//	slackTimes 2                             Slack
//	probePause 200 ms                        ProbePause
//	siteBeyond 1.2                           SitesLeave, as it is told
//	siteLead 20 s                            SitesLead
//	forksFor 2.5 s, blindFor 8 s             how many workers there are, see workers.go
//	againAfter 10 s, againMost 10 min        the same
//	fewWorkers 16                            the same
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
//	                4 + 8 and goes as well; the third ranks 8 + 8 and waits
//	0.10 s  0.0     a person asks for a page of 20 ms: nothing as short computes, and
//	                it goes at once
//	0.12 s  0.1     it is done: 0.02 CPU-seconds for shares of 0.2 in all
//	0.20 s  0.1     another client asks for a page of 0.4 s: 0.1 + 8. Two of its size
//	                compute; they are ahead of their share only by what they take
//	                now, less than half a CPU-second: it waits
//	0.40 s  2.1     the crawler's first page is done, 0.4 for shares of 0.2. The
//	                other page goes, before the crawler's third
//	0.40 s  4.1     the crawler's second page is done. No other client wants the room:
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
//	6.00 s      0    no client has lost patience for 5 s: first come, first served again
//
// # A client holds workers
//
// Sixteen workers, two CPUs; the address may hold five of the eleven. Each of its
// two pages waits 3 s for a database, and is known to. Event streams are known to
// stay.
//
//	 time   not short  orphans  what happens
//	0.0 s    2 of 11      0     the address asks for two pages: both go, and hold
//	                            a worker each without room on the ladder
//	0.1 s    2 of 11      2     it disconnects from both. The backend works on
//	0.2 s    5 of 11      2     it opens six event streams. The abandoned pages still
//	                            hold their workers: three streams go, three wait
//	0.3 s    5 of 11      2     its style sheet, and a person's page, are short:
//	                            both go at once
//	3.0 s    5 of 11      1     the backend has finished one of the pages: the fourth
//	                            stream goes
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
// response is then held until its own debt is paid as well: at 3.5 s.
//
// # Who calls what
//
// The [Limiter] is a state machine that is told the time. It starts no goroutine
// and never sleeps, so that a test plays an hour in a millisecond. A request's
// life is [Limiter.Arrive], wait for [Ticket.Decided], [Limiter.Progress] as it
// runs, [Limiter.Settle] when it has run, [Limiter.Leave] when it is answered.
// [Limiter.Advance] is called when it asks for that. [Limiter.Outlooks] tells why requests wait, and behind
// about how many.
//
// # The files
//
//	limiter.go     the story of a request, and what its keys' debts mean for it: begin to read here
//	ticket.go      what is to be known of it, its state, and what its keys were charged
//	waiting.go     the waiting room of caps
//	policy.go      what the limiter is told to do; keys, classes, and the rules that a test can switch off
//	gate.go        it comes to the gate, waits in a lane of its client, starts, runs and ends
//	ladder.go      room for each size, who leaves room for whom, and who goes next
//	flow.go        a client's turn and the clock; the order of those that wait; unknown clients
//	workers.go     how many there are, and who keeps them
//	sites.go       several sites
//	outlook.go     what a request has before it, and what keeps it; the gate and all keys in figures
//	share.go       what other sidecars are told, and tell
//	outbox.go      what waits to be sent to them
//
// # Locks
//
// They are taken in this order: policyMu, the waiting room's, the gate's, a ticket's, and
// last a shard's of the table of accounts or that of the known clients.
// Where there is a gate, its lock is the only one that all requests take, for as long as it
// takes to move a few numbers.
package limiter
