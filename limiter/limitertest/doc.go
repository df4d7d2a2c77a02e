// Package limitertest plays sites under siege on virtual time. It runs the real
// limiter, guess, meter, classifier and standing; only the network, the backend
// and the people are simulated. Six minutes take about a second, and the same
// seed gives the same run.
//
// A [World] has a backend that shares its CPUs evenly among all that it works on,
// as a kernel does, with a bounded number of workers and a bounded accept queue
// before them. Who gives up waiting at the backend is worked for all the same, as
// PHP does. A [Scenario] says who asks for what.
package limitertest
