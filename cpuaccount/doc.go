// Package cpuaccount says what a request costs the server, in CPU-seconds:
// beforehand by a guess from what the like of it cost before, afterwards by a
// meter that ran while the backend worked on it.
//
// # What is guessed by
//
// A request has features: its shape, its URL, and its parameters. Answers to the
// like of it tell what it will cost, those of its own client first, then those of
// known people, then all. What one address alone has answers to is believed by
// nobody else: it could have been trained. A request that runs far beyond its
// guess puts the like of it in doubt at once, all that is believed about it alike;
// of what was never answered it is known what those that run cost at least.
//
// # The reputation
//
// The same features tell who asks for what: a page that known people read has a
// good reputation, and one that only strangers spend the server's time on, as the
// history of each page, a bad one. Known people count by heads and strangers by
// time, so that it costs either as much to change a reputation as it is worth.
//
// # What is measured
//
// The meter runs from the moment the proxy hands a request to the backend until
// the backend has finished, also if the client has left before. Bodies wait in
// the proxy, so that a slow client usually is not seen here at all. Where the
// backend does wait for a client, as there is no room for a body or the answer is
// a stream, the count of CPU time stands still ([Span.Pause]): nobody is charged
// with CPU time in which nothing was computed. The worker is held all the same,
// and charged.
//
// # From wall time to CPU time
//
// A request that ran alone for a second used at most a CPU-second. One that ran
// for a second beside fifteen others on two CPUs got an eighth of them. The wall
// source ignores that, as the original tempomat did, and bills the victims of a
// crowd for the crowd. The corrected source scales the time by min(1, CPUs /
// requests at the backend) as it passes; a request whose process has stepped down in
// priority counts there as much as the kernel weighs it ([Span.Yield]). The header
// source takes the backend's word, and corrects where it has none.
//
// A page that waits for a database looks like one that computes. So twice a
// second [Meter.Correct] holds what was charged against the CPU use that was
// measured: where it was less, those that were at the backend all the time are
// taken to compute in a smaller part of it, and where it was more, in a larger
// one. The rest of a request's time is idle; [Estimator] remembers that of its kind
// too, so that a long poll is known beforehand.
//
// CPUs that are full look the same whoever fills them. Then pages tell whose cost is known:
// if they take, and are charged with, several times of that ([Span.Compare]), as many more
// compute as was thought, of those that were at the backend all the time.
//
// Where a request's worker is known, with the source process, nothing of that is guessed: a
// [Reading] has what the kernel counted for the process, and takes the place of what was
// estimated, from the beginning on ([Span.Measured]). What the measured ones used is taken off
// the machine's use before the others are corrected by it.
//
// # Two resources
//
// A backend has CPUs and workers. Who only sleeps in a worker, for a slow
// database, a lock or an event, uses next to no CPU time, and could hold all
// workers for it. So the cost is at least the part of the workers that was held,
// from beginning to end, pauses included: of 16 workers on 2 CPUs each is worth
// an eighth of a CPU, and 8 s in one cost a second at least. The dearer of the two
// is charged, as in dominant resource fairness (Ghodsi et al., NSDI 2011). How
// many workers there are, [Meter.SetWorkers] is told as it is learnt. The wall
// source knows of no workers.
//
// # The use of the CPUs
//
// Usage tells what part of the machine's or a cgroup's CPUs was used, from what
// the kernel counts. How many requests may compute at once follows it, and so does
// Correct.
package cpuaccount
