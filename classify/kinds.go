package classify

import "time"

// Kind is a built-in class: what it groups requests by, and what it is called where it is told of.
// The configuration, the statistics and what clients are told read the table of them.
type Kind struct {
	Name   string // as in the configuration
	Groups string // what it groups requests by, for the reference
	// Usual says that it is on unless it is switched off. Another one is on if its share is
	// given.
	Usual bool
	// Share and Burst are those of a usual one, unless they are given.
	Share float64
	Burst time.Duration
	// Workers is the part of the workers, of those that are not kept for short requests, that
	// each key may hold: one client leaves half of them to others, a network a quarter, and a
	// large one none in particular. 0: any part.
	Workers float64
	// Address is true if its keys follow from the client's address alone.
	Address bool
	// Database is the key of the configuration's databases that it needs; empty: none.
	Database string
	// Whose is what a client is told that waits for the class's sake.
	Whose Whose
}

// Whose is what a class is to its clients.
type Whose uint8

// Kinds of classes.
const (
	OfGroup Whose = iota // something that requests have in common
	OfClient
	OfNetwork
	OfProgram
)

// DefaultBurst is the burst of a class that has none of its own.
const DefaultBurst = 30 * time.Second

// Kinds is the table. The first one is the client itself.
func Kinds() []Kind {
	return []Kind{
		{Name: "slash32", Groups: "the client's address (IPv6: its /64); always on", Usual: true, Share: 0.10, Burst: DefaultBurst, Workers: 0.5, Address: true, Whose: OfClient},
		{Name: "slash24", Groups: "the client's /24 (IPv6: /56)", Usual: true, Share: 0.25, Burst: DefaultBurst, Workers: 0.75, Address: true, Whose: OfNetwork},
		{Name: "slash16", Groups: "the client's /16 (IPv6: /48)", Usual: true, Share: 0.50, Burst: DefaultBurst, Workers: 1, Address: true, Whose: OfNetwork},
		{Name: "userAgent", Groups: "the family of the User-Agent", Usual: true, Share: 0.10, Burst: 120 * time.Second, Whose: OfProgram},
		{Name: "asn", Groups: "the autonomous system of the address, such as `AS64496`", Address: true, Database: "asn"},
		{Name: "country", Groups: "the country of the address, such as `NZ`", Address: true, Database: "country"},
		{Name: "fingerprint", Groups: "a hash of the names and order of its usual headers; see [more classes](tasks.md#add-classes)"},
		{Name: "host", Groups: "the `Host`, without its port"},
	}
}

// KindOf is the kind of that name; false: it is the name of none.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
