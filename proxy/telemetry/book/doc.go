// Package book adds up what requests cost while it happens: by group, by page, over time.
// It holds what the last seconds were in fixed memory, whatever clients send, and what the
// last day was as a curve.
//
// A [Book] is told of requests that are over by Take, and of what runs by Running, so that a
// request of minutes shows while it runs: the entry of its end then adds what is left.
//
//	book.go       what it is told
//	overview.go   the groups at this moment
//	shapes.go     the pages that CPU time goes to
//	recent.go     what went wrong for single requests
//	series.go     the curve
//	window.go     sums of the last minute, by the second
//	distinct.go   how many different addresses there were
package book
