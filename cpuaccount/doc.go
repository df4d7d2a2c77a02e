// Package cpuaccount finds what a request costs the server in CPU-seconds: a guess from
// similar requests before it runs, and a meter while the backend works on it.
//
// # The guess
//
// A request has features: its shape, its URL and its parameters. The guess comes from
// answers to requests with the same features: first those of the same client, then those of
// known clients, then all. If only one address has answers to a feature, other clients'
// guesses don't use them, because that address could have trained them. A request that runs
// far beyond its guess casts doubt on all similar requests at once. For requests that were
// never answered, the cost so far of running ones is the least guess.
//
// # The meter
//
// The meter runs from the moment the proxy sends a request to the backend until the backend
// has finished, also after the client disconnected. Bodies wait in the proxy, so the meter
// usually doesn't see slow clients. If the backend has to wait for a client, because a body
// has no room or the answer is a stream, CPU time stops counting ([Span.Pause]). The worker
// still counts, because the request holds it.
//
// # From wall time to CPU time
//
// A request that ran alone for a second used at most a CPU-second. One that ran for a
// second next to fifteen others on two CPUs got an eighth of them.
//
//   - The wall source ignores that, as the original tempomat did, and so bills the victims
//     of a crowd for the crowd.
//   - The corrected source multiplies the time by min(1, CPUs / requests at the backend). A
//     request whose process stepped down in priority counts with the weight that the kernel
//     gives it ([Span.Yield]).
//   - The header source believes the backend, and corrects if the backend sends nothing.
//
// A page that waits for a database looks like one that computes. So [Meter.Correct] compares
// the charges with the measured CPU use twice a second. If the use was lower, requests that
// were at the backend all the time get a smaller part of it; if it was higher, a larger one.
// The rest of a request's time is idle. [Estimator] remembers the idle time of each kind as
// well, so that long polls are known beforehand.
//
// Full CPUs look the same whatever fills them. In that case it helps to know for how long the
// backend's processes waited for a CPU: as many more requests compute as was thought, of those
// that were at the backend all the time.
//
// With the source process the request's worker is known, and nothing is guessed: a [Reading]
// holds what the kernel counted for the process, and replaces the estimate from the
// beginning ([Span.Measured]). The use of measured requests is subtracted from the machine's
// use before the others are corrected.
//
// # Two resources
//
// A backend has CPUs and workers. A request that only sleeps in a worker uses next to no CPU
// time, but could help to block all workers. So a request costs at least the part of the
// workers that it held, from beginning to end, pauses included. With 16 workers on 2 CPUs a
// worker is worth an eighth of a CPU, and 8 s in it cost at least one second. The more
// expensive of the two is charged, as in dominant resource fairness (Ghodsi et al., NSDI
// 2011). [Meter.SetWorkers] sets the number of workers as it is learnt. The wall source
// ignores workers.
//
// # The use of the CPUs
//
// Usage measures which part of the machine's or a cgroup's CPUs was used, from the kernel's
// counts. The number of requests that may compute at once follows it, and so does Correct.
package cpuaccount
