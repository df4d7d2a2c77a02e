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
//
// # One file for each idea
//
//	classifier.go    the classes and the one call, Classify
//	clientip.go      the client's address: the peer and the walk along the hops
//	hops.go          a list header read from its right end
//	forwarded.go     the elements of RFC 7239
//	address.go       one address as proxies write it
//	network.go       slash32, slash24, slash16
//	useragent.go     User-Agent families
//	families.go      those seen lately
//	agentwords.go    the words that User-Agent families are told by
//	word.go          what words are made of
//	path.go          path shapes
//	segment.go       one part of a path shape
//	header.go        header classes
//	fingerprint.go   the class of a head by its fields
//	host.go          the class of a site by its name
//	text.go          the memory of keys
//	lookup.go        which keys what somebody asks for may be
//	pins.go          clients that somebody gave a standing for a time
//	exempt.go        exemptions
//	robots.go        robots and their accounts
//	sites.go         which of the sites of a shared host is asked for
//	crawlers.go      those that can be verified
//
//	evidence.go      the kinds of evidence of how a client stands
//	secure.go        whether the client came over TLS
package classify
