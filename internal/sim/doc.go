// Package sim simulates sites under attack in virtual time. The same code as in production decides on
// requests: package lifecycle, with the real limiter, estimator, meter, classifier, standing and redirect.
// Only the network, the backend and the clients are simulated. Six minutes take about a second. The same seed
// gives nearly the same run; small differences remain because some hashes have a different key each time.
//
// A [World] has a backend with a limited number of workers and a limited accept queue. The backend divides its
// CPUs among the computing requests, evenly or by the priorities of their processes, as a kernel does. A
// worker handles a request from its first byte to the last byte of the answer: while the body arrives, while
// it waits for a database, while it computes, while a stream lasts, and while a slow client reads. If a client
// disconnects, its worker continues, as in PHP.
//
// The simulated proxy reads bodies before it asks the gate, and buffers answers. In a Plain scenario it does
// neither, to show the effect of slow clients on such a proxy.
//
// A [Scenario] says which clients request which pages, and what each kind of client must get at least:
//
//	Scenarios, Machines      crawls; the same on other numbers of CPUs
//	HoldingWorkers, HangUps, Polls, UnsetWorkers
//	                         requests that hold workers
//	Attacks                  families of others: wrong guesses, newcomers, crowds, offices, crawlers
//	                         that look like people
//	Redirects                newcomers that are redirected
//	Stepping                 crawls of a backend whose processes reduce their priority
//	Ordinary                 sites without attacks, on backends that start their workers at once or on
//	                         demand, next to other programs, and of which the proxy sees more or less
//
// One test runs each scenario of Ordinary with and without the gate, and another runs a grid of sites and
// other programs. sharers.go contains the tests that every way of sharing must pass, in real time.
package sim
