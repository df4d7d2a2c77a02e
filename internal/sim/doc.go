// Package sim simulates sites under attack in virtual time. The same code as in production decides on requests:
// package lifecycle, with the real limiter, estimator, meter, classifier, standing and redirect. Only the
// network, the backend and the clients are simulated. Six minutes take about a second. The same seed gives
// nearly the same run. Small differences remain, because some hashes have a different key in each run.
//
// A [World] has a backend with a limited number of workers and a limited accept queue. The backend divides its
// CPUs among the computing requests, evenly or by the priorities of their processes, as a kernel does. A
// worker handles a request from its first byte to the last byte of the answer: while the body arrives, while
// it waits for a database, while it computes, while a stream lasts, and while a slow client reads. If a client
// disconnects, its worker continues, as in PHP.
//
// The simulated proxy reads a body before its request goes to the gate, and buffers answers. In a Plain
// scenario, it does neither, which shows the effect of slow clients on such a proxy.
//
// A [Scenario] defines which clients request which pages, and what each kind of client must get at least:
//
//	Scenarios, Machines      crawls; the same scenarios on other numbers of CPUs
//	HoldingWorkers, HangUps, Polls, UnsetWorkers
//	                         requests that hold workers
//	Attacks                  other families: wrong guesses, newcomers, crowds, offices, crawlers
//	                         that look like people
//	Redirects                newcomers that are redirected
//	Stepping                 crawls of a backend whose processes reduce their priority
//	Ordinary                 sites without attacks, on backends that start their workers at once or on
//	                         demand, next to other programs; the proxy can see more or less of them
//
// One test runs each scenario of Ordinary with and without the gate. Another test runs a grid of sites and
// other programs. sharers.go contains the tests that every way of sharing must pass, in real time.
package sim
