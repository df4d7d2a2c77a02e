// Package classify determines which client a request is charged to: the client's address, the key of each
// class, the shape of the path, and whether the request is exempt. Package standing judges clients based on
// these results.
//
// Everything that this package reads was written by the client or by a proxy on the way. The package therefore
// limits the hops and bytes that it reads, the length of keys and, as far as possible, the number of keys that a
// client can create. It doesn't read the clock and logs nothing. Between requests, a Classifier keeps only a
// cache of User-Agents.
package classify
