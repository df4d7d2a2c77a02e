package classify

import "time"

// Kind is a built-in class.
type Kind struct {
	Name string // as in the configuration
	// Usual is true if the class is on by default. Other classes are on if they have a share.
	Usual bool
	// Share and Burst are the defaults of a usual class.
	Share float64
	Burst time.Duration
	// Workers is the fraction of the workers that each key may hold, not counting those kept for short
	// requests. A client leaves half of them to others, and a network leaves a quarter. 0 means no limit.
	Workers float64
	// Address is true if the keys depend only on the client's address.
	Address bool
	// Database is the kind of database that the class needs, or empty if it needs none.
	Database string
	// Whose determines the explanation that a rejected client gets for the class.
	Whose Whose
}

// Whose says what the members of a class have in common.
type Whose uint8

// Members of classes.
const (
	OfGroup Whose = iota // something else
	OfClient
	OfNetwork
	OfProgram
)

// DefaultBurst is the burst of a class for which none is configured.
const DefaultBurst = 30 * time.Second

// Kinds returns the built-in classes. The keys of the first one are the clients.
func Kinds() []Kind {
	return []Kind{
		{Name: "slash32", Usual: true, Share: 0.10, Burst: DefaultBurst, Workers: 0.5, Address: true, Whose: OfClient},
		{Name: "slash24", Usual: true, Share: 0.25, Burst: DefaultBurst, Workers: 0.75, Address: true, Whose: OfNetwork},
		{Name: "slash16", Usual: true, Share: 0.50, Burst: DefaultBurst, Workers: 1, Address: true, Whose: OfNetwork},
		{Name: "userAgent", Usual: true, Share: 0.10, Burst: 120 * time.Second, Whose: OfProgram},
		{Name: "asn", Address: true, Database: "asn"},
		{Name: "country", Address: true, Database: "country"},
		{Name: "host"},
	}
}

// KindOf returns the built-in class with that name.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
