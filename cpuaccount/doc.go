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
// the backend's last byte has come. It stands still while the proxy waits for
// the client: for the rest of an upload, or for room in the connection of
// somebody who reads slowly. So nobody is charged for the waiting that the proxy
// itself caused, and a slow reader is charged for the backend's time, not for
// their own.
//
// # From wall time to CPU time
//
// A request that ran alone for a second used at most a CPU-second. One that ran
// for a second beside fifteen others on two CPUs got an eighth of them. The wall
// source ignores that, as the original tempomat did, and bills the victims of a
// crowd for the crowd. The corrected source scales the time by min(1, CPUs /
// requests at the backend) as it passes. The header source takes the backend's
// word, and corrects where it has none.
//
// # Two resources
//
// The backend's word is of CPU time. Who only sleeps in a worker, for a slow
// database or a lock, tells next to none, and could hold all workers for it. So
// what is told is raised to the part of the workers that was held: of 16 workers
// on 2 CPUs each is worth an eighth of a CPU, and 8 s in one cost a second at
// least. The dearer of the two is charged, as in dominant resource fairness
// (Ghodsi et al., NSDI 2011). A slow client holds no worker: the meter stands
// still.
//
// # The use of the CPUs
//
// Usage tells what part of the machine's or a cgroup's CPUs was used, from what
// the kernel counts. How many heavy requests run at once follows it.
package cpuaccount
