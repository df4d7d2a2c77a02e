// Package cpuaccount determines the cost of a request to the server, in CPU-seconds. It guesses the cost from similar
// requests before the request runs, and measures it while the backend works on the request.
//
// # The guess
//
// A request has features: its shape, its URL and its parameters. The guess is based on answers to requests
// with the same features. Answers to the client itself take precedence, then answers to known clients, then
// all answers. Answers to only one or two addresses don't count for other clients, because these addresses
// could have manipulated the guess. A request that runs far beyond its guess immediately casts doubt on all
// similar requests. If no similar request has been answered, the guess is at least as high as the cost so far of
// running ones and the cost of the latest requests of other new kinds.
//
// # The meter
//
// The meter runs from when the proxy sends a request to the backend until the backend has finished, even if
// the client disconnects earlier. The proxy buffers bodies, so slow clients usually don't matter. If the
// backend has to wait for a client, because a body is too large for the buffer or the answer is a stream, the
// meter stops counting CPU time ([Span.Pause]). It still counts the worker, because the request holds it.
//
// # From wall time to CPU time
//
// A request that ran alone for a second used at most a CPU-second. A request that ran for a second next to
// fifteen others on two CPUs got at most an eighth of a CPU.
//
//   - The wall source ignores that, as the original tempomat did. The more requests run at the same time, the
//     more it charges each of them.
//   - The corrected source multiplies the time by min(1, CPUs / requests at the backend). A request whose
//     process has reduced its priority counts with the weight that the kernel gives to that priority
//     ([Span.Yield]).
//   - The header source uses the cost that the backend reports. If the backend reports none, it works like
//     the corrected source.
//
// A page that waits for a database looks like one that computes. Therefore [Meter.Correct] compares the
// charges with the measured CPU use twice a second. If the use was lower, it assumes that requests compute
// for a smaller part of their time; if the use was higher, for a larger part. The rest of a request's time is
// idle. [Estimator] also learns the idle time of each kind of request, to recognise long polls before they
// run.
//
// When the CPUs are full, their use doesn't show how many requests compute. In that case, Correct uses the
// time for which the backend's processes waited for a CPU.
//
// With the source process, the request's worker is known and nothing is estimated. A [Reading] contains the times
// that the kernel has counted for the process since the request began, and replaces the estimate
// ([Span.Measured]). The use of these requests is subtracted from the machine's use before the other requests are
// corrected.
//
// # Two resources
//
// A backend has CPUs and workers. A request that only sleeps in a worker uses almost no CPU time, but many
// such requests can block all workers. Holding a worker therefore also has a price, even during pauses. With
// 16 workers on 2 CPUs, a worker is worth an eighth of a CPU, so holding it for 8 s costs one CPU-second. The
// more expensive of the two resources is charged, as in dominant resource fairness (Ghodsi et al., NSDI 2011).
// [Meter.SetWorkers] sets the number of workers. The wall source ignores workers.
//
// # The use of the CPUs
//
// Usage computes from the kernel's counters which fraction of the machine's or a cgroup's CPUs was used.
// Correct uses the result, and so does the gate, to decide how many requests may compute at once.
package cpuaccount
