// Package classify determines which client a request is charged to: the client's address, the key of each
// class, the shape of the path, and whether the request is exempt. Package standing judges clients based on
// these results.
//
// Everything that this package reads was written by the client or by a proxy on the way. It therefore limits
// the hops and bytes that it reads, the length of keys and, as far as possible, the number of keys that a
// client can create. It reads no clock and logs nothing. A Classifier keeps nothing between requests except a
// cache of User-Agents.
package classify
