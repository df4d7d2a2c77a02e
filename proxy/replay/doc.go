// Package replay reads an access log and tells what limits and the gate would have
// done with its requests.
//
// They are run on virtual time through what serves requests: classify, the lifecycle
// and the limiter, before a simulated backend that shares its CPUs evenly among those
// at work there. Each request costs what the log says. [Run] streams: a line is parsed
// (format.go), sorted within a window (window.go), simulated (engine.go) and counted
// (tally.go), and nothing grows with the length of the log.
//
// What a log cannot tell is not replayed: cookies and what else headers say, newcomers
// who are redirected, clients who would have given up, or come again, because of what
// they had to wait. Who comes comes as the log says, whatever became of it before.
package replay
