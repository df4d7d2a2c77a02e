// Package shadow reckons what would become of requests if what is in shadow acted.
//
// That cannot be read off the verdicts of the requests themselves. Where nobody is refused
// debts grow on, and so does the load that a queue would have smoothed. So beside the real
// limiter there is a second one, with the policy that is in shadow, before a simulated
// backend of as many CPUs and workers: package replay, which the doctor replays logs with.
// It is told of each request as that is over, in the order in which they came, with what
// it cost in truth, and runs on its own time, up to a minute behind.
//
// What it says is an estimate: who would have waited, or been refused, comes again in no
// other way than it did; pages cost what they cost in truth; what peers and a master would
// have said is not in it.
//
//	intake.go   the side of those who serve requests
//	window.go   requests in the order in which they came
//	twin.go     the second limiter, and what it is told
//	costs.go    what pages cost where the backend was crowded
//	likes.go    what the like of a request used
//	served.go   what those cost together that were served at a time
//	leavers.go  for how long clients wait
//	tally.go    was and would have been, hour by hour
//	waits.go    how long requests waited
//	keys.go     whom it would have met
//	saved.go    hours as bytes
//	reply.go    what is told of it
//
// # Cost
//
// While nothing is in shadow a request costs one atomic load. Else it is copied, under a lock
// that one in 16 others has, into a buffer of 16 × 256 requests; what finds that full is left
// out, and counted. Everything else is done by one goroutine, which takes no more than
// a fifth of a CPU. At most some 8,500 requests wait to be sorted: 8 MB.
package shadow
