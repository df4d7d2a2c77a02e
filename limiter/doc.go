// Package limiter keeps an account of CPU time for every client. From these accounts, it decides when a
// request may go to the backend.
//
// # The model
//
// The currency is the CPU-second. A server with four cores has four CPU-seconds to spend each second. A limit
// that counts requests treats a page of 2 s like a page of 2 ms; a limit in CPU time doesn't.
//
// A request belongs to one [Key] in each of several classes: its address, the networks around the address,
// its User-Agent. Every key has a token bucket:
//
//   - The bucket earns [Budget].CPUs CPU-seconds per second, its class's share of the machine.
//   - It saves what the key doesn't use, up to [Budget].Burst.
//   - A request charges all of its keys. The charge is a guess when the request starts, grows if the request
//     runs longer than guessed, and is replaced by the measured cost at the end.
//   - A level below zero is debt. A key owes at most what it earns in the policy's Memory (two minutes), so a
//     client that stops sending requests is out of debt after that time.
//
// A key without a bucket is treated as if it had a full one. The table of buckets is bounded, because full
// buckets can be deleted. Package account keeps that table.
//
// # What debt means
//
// The [Mode] decides:
//
//   - Fair, the default, delays no request while the backend has room. When the backend is full, requests of
//     clients in debt count as more expensive, and cheap requests start first: see "The gate" below.
//   - Observe charges, ranks and counts, and delays no request. Use it on the first day.
//   - Cap is a hard ceiling. A request of a key in debt waits until the debt is paid. Requests that wait for
//     the same key are released one at a time. A single class can be capped in every mode except Observe.
//   - Cooperative works like the original Smockron. A request runs at once, and its response is held until
//     the debt is paid. A crawler that waits for each response before its next request slows down. Nothing
//     depends on a guess, because the cost is measured before the response is held.
//
// A request that would wait longer than MaxHold is refused at once. If the waiting room is full, the newest
// request of the longest queue is refused. Refused requests aren't charged; otherwise, retries would prolong
// the debt. In shadow, the limiter only reports these decisions.
//
// # The gate
//
// In Fair mode, requests queue at the gate instead of at the backend, whose own queue treats all clients
// alike. The gate divides the backend's CPUs and workers among the clients. After each rule below, brackets
// give its name and the scenarios of package sim or the unit tests that fail without it. The list of rules in
// package sim's worth_test.go shows how to take each rule out of the code.
//
// Sizes. A ladder of seven rungs sorts requests by the CPU time that they take: up to 25, 100 and 400 ms,
// 1.6, 6.4 and 25.6 s, and longer. A request's size is its rung. Requests of up to 100 ms are called short.
//
//   - A request may start to compute if fewer than n requests of its size or shorter are computing. Longer
//     ones don't count, because a short request finishes soon even next to them.
//   - n starts at the number of CPUs, and is adjusted about twice a second. If requests wait and less than
//     90 % of the CPU time is used, n grows by a quarter. If less than 45 % is used and requests also waited
//     half a second earlier, n doubles. Above 97 %, n shrinks by a quarter (Grows: db-20-300ms, db-60-300ms).
//   - For a request in the upper half of a rung, computing requests in the lower half of the next rung also
//     count (Halves: nat+dist120, new+dist120-samepath).
//   - For a request of up to 400 ms, n is larger by one for every two computing requests that are longer by at
//     least two rungs (Beside: mixed, nat+crawl1). When a short request turns out to be longer, short requests
//     don't get that extra room for a second (Distrust: heavy+again-40+redirect, misguess8addr).
//   - A request that at first only held a worker may compute later. The ladder made no room for it when it
//     started, so n is larger by one for all sizes while it computes (Uninvited:
//     2cpu-150workers-pages800ms-20x50+10s-spread=true).
//   - While all requests that wait for a CPU are tiny (at most 1 ms), 25 computing tiny requests count as one
//     (TestTinyRequestsShareRoom).
//   - A running request that takes more CPU time than guessed climbs to a longer rung (Climbs: longjobs-flat,
//     exports60s-3conn-pages300ms). A waiting request moves to another rung when its guess changes (Reguesses:
//     misguess-control, longjobs-light).
//   - A request doesn't count towards n if it is observed not to compute, or if it is expected to spend at
//     least a second and 7/8 of its time waiting for something else (Waits: halves-20conn-2.5s-pages100ms,
//     polls120s-8conn-pages800ms).
//
// Turns. Of the requests that may start, the one with the lowest rank starts first.
//
//   - The rank has three parts: the clock at the request's arrival, twice the request's cost divided by its
//     client's share, and its client's lead over the clock (Lead: natflat20+crawler-inside-cookiesfalse,
//     flat+follow-1x40+redirect). The clock is a virtual time that advances with the service given, as in
//     start-time fair queueing. A client's lead is the service that it has had beyond its share.
//   - Each client has one first-in-first-out queue per size, called a lane. Only the head of a lane competes.
//   - A client's standing estimates how likely the client is a person's browser. It multiplies the client's
//     share by 1/2 to 8 (Standing: flat120, flat120think).
//   - The sessions of an address divide the address's share among them. That share is one to eight times a
//     client's, depending on how many people are behind the address and have requests. Sessions that request
//     more pages than people read share one client's part (Behind: flatnat-4cpu). If an address has no
//     sessions, its User-Agents divide its share (Faces: natflat20+flatcrawler-inside-cookiesfalse). All
//     robots whose names anyone can invent count as one client together.
//   - Debt multiplies a request's cost by up to 9 (Debt: flash100-150ms+crawl, flash500-60ms+crawl). A client
//     that owes nothing itself bears a quarter of the debt of its networks and its User-Agent (Inherits:
//     flatnat-1cpu-crowded, natflat20+crawler-inside-cookiesfalse).
//
// Leaving room. A client whose lead is more than half a CPU-second is over its share (overShare). All
// strangers count as over their share.
//
//   - When a client within its share sends a request of up to 100 ms or of more than 1.6 s, running requests of
//     clients over their share don't count towards n. For a request between 100 and 400 ms, this applies only
//     while CPUs are idle or the kernel takes the CPUs from clients over their share (Passes:
//     dbcrawl-300ms-300ms, flat1+steps).
//   - A request of more than 400 ms from a client over its share starts only if the other clients left a CPU
//     free in the last 10 s (Leaves: dear-people300ms-crawl5s, dear-people150ms-crawl2s).
//   - That check ignores longer requests that are running (LeavesLonger: exports60s-3conn-pages300ms,
//     exports60s-20conn-pages300ms). It lets one more request start if the client is within its share again, or
//     while a CPU is idle (LeavesMore: crawl1-8cpu). It doesn't apply while a request computes that at first
//     only held a worker.
//
// Strangers. Unknown clients are called strangers. All strangers together share one turn, as if they were one
// client (Strangers: flatshot, stream-40x1-cold). A client becomes known after half a minute and five answers.
//
//   - All strangers together have half the sum of all other clients' shares, or 1/2 if that is more
//     (OthersPart: new+posing120).
//   - Strangers' requests of different sizes take turns. If a stranger's request arrives while no other of its
//     size waits, the turn of this size begins at the earliest turn of the other sizes. Strangers that got less
//     than their share can catch up by four requests at most (Credit: new+posing120).
//   - Strangers' requests of one size are ordered by these criteria, the most important first. Prefetches go
//     last. Requests of clients that sent back a cookie (Passed: heavy+again-40+redirect,
//     heavy+follow-40+redirect), and short requests for parts of a page that was just served (Parts:
//     new+shot40-parts), go before the rest. Clients with fewer answers go first (Fewest:
//     new+dist120-samepath). Otherwise, the order of arrival decides.
//   - For ten seconds after a stranger has waited for a second, the newest of those with fewer than five
//     answers goes first, because the older ones have probably given up (Newest: new+lightshot100,
//     res-flat-13/s). Those that have waited for longer than a second follow in the order of arrival, so after a
//     rush, few are refused (burst-20/s).
//
// Workers. Every request at the backend holds a worker, even after its client disconnected.
//
//   - Five of sixteen workers, but at most two per CPU plus one, are kept for short requests (Kept:
//     stream-40x1, poll-20). Because requests of up to 1.6 s end soon, they leave only as many workers as short
//     requests have used at once in the last 10 to 20 s, but at least one. Requests of up to 400 ms leave none,
//     and if there are no more workers than CPUs, nor do those of up to 1.6 s that compute.
//   - A request whose client is still sending the body doesn't count as one that ends soon. When the body ends,
//     it may compute, and the ladder made no room for it. Unless it is known to be short, a client over its share
//     may therefore start it only while the bodies of its address are for less than a second of all CPUs for each
//     client behind the address, however many workers are free (Uploads: novel-chunks-3x5, chunks-1x96-5s, chunks-8x12-60s).
//     After MaxHold, one whose cost is known starts instead of being refused if less than 90 % of the CPU time is
//     used, many workers are free, and these bodies are for less than ten seconds (LateUploads: uploads-1x12-75s).
//   - Some requests arrive as short ones but run longer. While requests compute that aren't short, or only the
//     kept workers are free, short requests wait if their client is over its share and has such a request at the
//     backend. If such requests hold as many workers as are kept, short requests also wait if their client is over
//     its share or holds a worker with a longer request (Misjudges: misguess8addr).
//   - While requests wait for a CPU, requests that compute little leave them one worker per CPU (HoldersLeave:
//     2cpu-16workers-pages3000ms-20x5+0.001s-spread=true).
//   - Each key may hold its class's part of the workers that aren't kept (KeysHold: waiting-people+holds-20).
//     While more workers are free than short requests recently used, or than are kept if the new request takes longer
//     than 1.6 s, a key's requests of known cost of up to 1.6 s don't count, unless they upload (Briefly:
//     api8x50ms+1s-16w, office30-5w). Nor do they if there are no more workers than CPUs and the new request takes up
//     to 400 ms.
//   - Strangers together may hold half of the workers that aren't kept with requests that take longer than 1.6 s,
//     that upload, or that seem to take more than 400 ms although there are too few answers to know their cost
//     (StrangersPart: waiting-people+strangers-hold). Strangers' other
//     requests leave only as many workers as known clients have held at once in the last 10 to 20 s. A stranger's
//     request that will compute may exceed strangers' part if its client holds no worker, and requests as short or
//     shorter leave a CPU free (MayCompute: polls120s-8conn-pages800ms, exports60s-3conn-pages100ms-1cpu).
//   - The limits on clients, keys and strangers don't apply while the number of workers is unknown, or while
//     many are free: more than twice the kept workers and the CPUs together (Slack: office-stream-80).
//
// Unknown kinds. A request is of an unknown kind if no earlier answer shows what it will cost. It waits on
// the rung of 1.6 s. One such request at a time is a probe, which starts even if the ladder has no room for it
// (Probes: all+crawl-cold, novel8x20-wiki20ms). Once a probe turns out to need more than 100 ms, the next may
// start. If the latest requests of unknown kinds in a folder were expensive, or those for one page with other
// parameters, the next ones aren't probes (package cpuaccount).
//
// A full queue. While the queue has room, no client has a limit of its own. A full queue refuses one of the
// longest requests of the client with the most work (TestFullQueueSheds). Of all strangers, which count as
// one client, it chooses first the one with the most waiting requests, if these are more than 64
// (TestManyBehindOneAddressWait). Parts of a page are refused last, unless their client has more than 64 waiting
// requests (TestPartsAreShedLast). A request that has waited for MaxHold, including its wait for a cap, is refused
// (TestNoRequestWaitsLongerThanMaxHold).
//
// # Sites
//
// A backend may serve several sites ([Policy].Sites). Requests for none of them belong to one additional site.
//
//   - Each site has its own clock for its clients and strangers. The sites take turns: the one with the
//     lowest start tag goes first, and its tag advances by the request's cost divided by the site's share.
//   - A site that recently used more than its part of the CPUs starts no request that computes while requests of
//     other sites compute (SitesLeave: the smallest has the most expensive pages), unless a CPU is idle or used by
//     the site's own longer requests (SitesIdle: long pages). If a site used less than its part, its clients needn't
//     leave a CPU free for other clients.
//   - No site can be ahead by more than 20 s of the whole machine (SitesLead: a thousandth).
//
// # How many workers there are
//
// A comment in workers.go explains how the gate finds that number.
//
// # The constants
//
// These constants were found by experiment. Each is listed with the rules above that use it.
//
//	firstRung 25 ms, perRung 4, rungs 7      Halves, Climbs: the sizes
//	perTiny 25                               how many tiny requests count as one
//	lightRung, passRung, briefRung           Passes, Beside, Leaves, Kept, Briefly, Probes: up to 100 ms, 400 ms, 1.6 s
//	idleBelow 0.90, fullAbove 0.97, byPart 4 Grows
//	waitsPart 7/8                            Waits
//	baseMultiplier 2, debtMultiplier 16      Debt
//	inheritedDebt 1/4                        Inherits
//	faces 8                                  Faces
//	aheadFrom 0.5 s                          Passes, Leaves
//	usedFor 10 s                             Leaves, Kept, Newest, SitesLeave: what counts as recent; how many workers there are
//	longPart 1.5                             LeavesMore
//	patience 1 s                             Newest, Distrust; Waits; Uploads
//	strangerFor 30 s, strangerAnswers 5      Strangers; Newest
//	mostAnswers 31                           Fewest
//	strangersShare 1/2                       OthersPart
//	strangersCredit 4                        Credit
//	keptOf16 5, keptForKnown 2               Kept
//	slackTimes 2                             Slack
//	unknownUpload 0.25                       Uploads
//	lateUploads 10 s                         LateUploads
//	mostParts 64                             a full queue
//	siteBeyond 1.2                           SitesLeave: above this, verdicts report a site as ahead
//	siteLead 20 s                            SitesLead
//	forksFor 2.5 s, blindFor 8 s             how many workers there are, see workers.go
//	againMost 10 min                         the same
//	fewWorkers 16                            the same
//
// # A crawl at the gate
//
// There are two CPUs, so each rung has room for two. Every client's share is 0.1, so a page of 0.4
// CPU-seconds moves its client ahead by 4 on the clock. In the rank of a client without debt, the page
// counts twice, as 8. All clients are known.
//
//	 time   clock   what happens
//	0.00 s  0.0     the crawler asks for three pages of 0.4 s. The first ranks 0 + 8
//	                and goes, which puts the crawler 4 ahead. The second ranks 4 + 8
//	                and goes as well. The third ranks 8 + 8 and waits
//	0.10 s  0.0     a person asks for a page of 20 ms. No request that short computes,
//	                so the page goes at once
//	0.12 s  0.1     that page is done. It took 0.02 CPU-seconds, and the shares of the
//	                two clients with requests add up to 0.2
//	0.20 s  4.1     both pages have used 0.2 CPU-seconds, and no other client is active.
//	                Another client asks for a page of 0.4 s, which ranks 4.1 + 8. Two
//	                pages of its size compute. When they arrived, the crawler was within
//	                its share (ahead by at most 0.4 CPU-seconds), so the new page waits
//	0.40 s  5.1     the crawler's first page is done, after 0.2 more CPU-seconds. The
//	                other client's page goes before the crawler's third page
//	0.40 s  6.1     the crawler's second page is done. No other client wants the room,
//	                so the third page goes
//
// # Newcomers in a crowd
//
// The machine is the same. Sixteen strangers arrive at once, each for a page of a known kind that costs 0.15
// CPU-seconds.
//
//	 time   waiting  what happens
//	0.00 s     14    the strangers are one flow and go in order of arrival: two go
//	0.90 s      2    six pairs of pages are done, and the seventh pair goes
//	0.95 s      3    a newcomer arrives. At this point it would go last
//	1.00 s      3    the last two of the sixteen have waited for a second
//	1.05 s      1    the seventh pair is done. From now on the newest goes first: the
//	                 newcomer goes, and then the older one of the two
//	1.10 s      2    another newcomer arrives, and is next
//	1.20 s      0    two pages end: this newcomer and the last of the sixteen go
//	11.0 s      0    no wait has reached a second for 10 s: first come, first served again
//
// # A client holds workers
//
// There are sixteen workers and two CPUs. An address may hold five of the eleven workers that aren't kept for
// short requests. It asks for two pages that each wait 20 s for a database. The gate has learned from earlier
// requests that these pages wait, and that event streams stay open.
//
//	 time   not short abandoned what happens
//	0.0 s    2 of 11      0     the address asks for the two pages. Both go, and each
//	                            holds a worker but takes no room on the ladder
//	0.1 s    2 of 11      2     the client disconnects. The backend still works on both
//	0.2 s    5 of 11      2     the client opens six event streams. The abandoned pages
//	                            hold their workers, so three streams go and three wait
//	0.3 s    5 of 11      2     the client asks for a style sheet, and a person for a
//	                            page. Both are short and go at once
//	20.0 s   5 of 11      1     the backend has finished one of the pages: the fourth
//	                            stream goes
//	20.0 s   5 of 11      0     the other page is done, and the fifth stream goes. The
//	                            sixth waits until one ends, and is refused after
//	                            MaxHold. Six of the eleven workers are left for others
//
// # One crawl under a cap
//
// A crawler may use 0.4 CPUs and has saved 1 CPU-second (the default is 30). Each of its pages costs 0.8
// CPU-seconds and takes 0.8 s to generate. The mode is cap.
//
//	 time  level            what happens
//	0.0 s   1.0 →  0.2      a page goes, because the crawler owes nothing; 0.8 is charged
//	0.0 s   0.2 → -0.6      a second page goes at the same time, and 0.8 is charged
//	0.0 s  -0.6             a third page waits: at 0.4 a second, 0.6 takes 1.5 s
//	0.8 s  -0.28            both pages are done. They cost what was guessed
//	1.5 s   0.0 → -0.8      the third page goes, and 0.8 is charged
//	2.0 s  -0.6             a fourth page waits for 1.5 s. From here on, one page goes
//	                        every 2 s, which is 0.4 CPUs
//
// In cooperative mode the third page also runs at 0.0 s and is done at 0.8 s. Its response is then held until
// the debt, including this page, is paid at 3.5 s.
//
// # How to call it
//
// The [Limiter] is a state machine that gets the time from its caller. It starts no goroutine and never sleeps,
// so tests can simulate an hour in a millisecond. For each request, call [Limiter.Arrive], wait for
// [Ticket.Decided], call [Limiter.Progress] while it runs, [Limiter.Settle] when the backend has finished it,
// and [Limiter.Leave] when its response has been sent. Call [Limiter.Advance] at the time that its previous
// call returned, or earlier if the channel that [Limiter.Due] returns receives a value. Also call Advance after
// Progress for all running requests and [Limiter.Reguess] for all waiting ones, because these two start no
// request. [Limiter.Outlooks] reports why requests wait, and roughly how many go before each of them.
//
// # The files
//
//	limiter.go     the life of a request, and what its keys' debts mean for it: start reading here
//	ticket.go      a request's properties and state, and what its keys were charged
//	waiting.go     the waiting room of caps
//	policy.go      the settings, keys and classes
//	gate.go        a request at the gate: it waits in a lane of its client, starts, runs and ends
//	ladder.go      room for each size, which clients leave room for others, and which request goes next
//	flow.go        a client's turn and the clock; the order of waiting requests; strangers
//	workers.go     how many workers there are, and which requests may hold them
//	sites.go       several sites
//	outlook.go     why a request waits and what is ahead of it; the state of the gate and of all keys, for the doctor
//	share.go       what this instance and the others report to each other
//	outbox.go      the queue of charges to be sent to other instances
//
// # Locks
//
// Locks are taken in this order: policyMu, the waiting room's lock, the gate's lock, a ticket's lock, and last
// the lock of a shard of the table of accounts or that of the known clients. In modes with a gate, the gate's
// lock is the only one that all requests take. It is held only as long as it takes to update a few numbers.
package limiter
