// Package classify says whom a request is charged to: it finds the client's
// address, the key of each class, the shape of the path, and whether the
// request is exempt. How a client stands is judged by package standing, from what is
// found here.
//
// Everything it reads was written by the client or by a proxy on the way, so
// everything is bounded: how many hops and bytes are looked at, how long a key
// may be, and, as far as text allows, how many different keys a client can
// make. Nothing here reads a clock or prints. A Classifier keeps nothing between
// requests but caches of what it found.
package classify
