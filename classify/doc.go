// Package classify says whom a request is charged to: it finds the client's
// address, the key of each class, the shape of the path, and whether the
// request is exempt.
//
// Everything it reads was written by the client or by a proxy on the way, so
// everything is bounded: how many hops and bytes are looked at, how long a key
// may be, and, as far as text allows, how many different keys a client can
// make. Nothing here reads a clock, prints, locks or keeps anything between
// requests but a cache of User-Agents.
//
// One file for each idea:
//
//	classifier.go  the classes and the one call, Classify
//	clientip.go    the client's address: the peer and the walk along the hops
//	hops.go        a list header read from its right end
//	forwarded.go   the elements of RFC 7239
//	address.go     one address as proxies write it
//	prefixset.go   the trusted proxies
//	network.go     slash32, slash24, slash16
//	useragent.go   User-Agent families
//	families.go    those seen lately
//	agentwords.go  the words that User-Agent families are told by
//	word.go        what words are made of
//	path.go        path shapes
//	segment.go     one part of a path shape
//	header.go      header classes
//	exempt.go      exemptions
package classify
