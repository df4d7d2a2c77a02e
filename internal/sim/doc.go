// Package sim plays sites under siege on virtual time. What is decided of a
// request is the very code that serves requests, package lifecycle, with the real
// limiter, guess, meter, classifier, standing and redirect; only the network, the
// backend and the people are simulated. Six minutes take about a second, and the
// same seed gives nearly the same run: what is kept as hashes has a key of its own
// each time.
//
// A [World] has a backend that shares its CPUs evenly among all that it works on, or by
// their weights where some have stepped down, as a kernel does, with a bounded number of
// workers and a bounded accept queue before them. A worker has a request from its first byte to the last of the
// answer: while its body comes, while it waits for a database, while it computes,
// while a stream goes on and while a slow client reads. Who gives up waiting at
// the backend is worked for anyway, as PHP does.
//
// The proxy reads bodies before it asks for a place and spools answers, unless a
// scenario is Plain: that shows what slow clients do to a proxy that does not.
//
// A [Scenario] says who asks for what, and what everybody must get. [Scenarios]
// are crawls, and [Machines] the same on other numbers of CPUs; [HoldingWorkers],
// [HangUps], [Polls] and [UnsetWorkers] are about what holds workers; [Attacks] are
// families of everything else: wrong guesses, newcomers, crowds, offices, crawlers
// that look like people; [Redirects] are newcomers who are redirected, and [Stepping] are
// crawls of a backend whose workers step down in priority. [Ordinary] are sites that nobody
// attacks, on backends that start their workers as they need them or all at once, in addition to other programs, and
// of which the proxy sees more or less; a test plays each with the gate and without. Another one does so
// with a grid of sites and hogs.
package sim
