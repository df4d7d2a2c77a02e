// Package classify finds out whom a request is charged to: the client's address, the key
// of each class, the shape of the path, and whether the request is exempt. Package standing
// judges clients by these findings.
//
// The client or a proxy on the way wrote all that this package reads, so all of it is
// bounded: the hops and bytes that are read, the length of a key and, as far as text allows,
// the number of keys that a client can make. The package reads no clock and prints nothing.
// Between requests a Classifier keeps only caches of its findings.
package classify
