package master

import "slices"

// DefaultIdentifiers is how many identifiers of a domain are remembered, unless
// it is told otherwise. Each takes about 200 bytes.
const DefaultIdentifiers = 1_000_000

// evictOf is among how many the one to forget is looked for when a domain is full.
const evictOf = 8

// Domain is a resource, and the rules that its identifiers are held to: who breaks
// one of them has to wait. Without rules it is only counted.
type Domain struct {
	Name        string
	Rules       []Rule
	Identifiers int // most that are remembered; 0: DefaultIdentifiers
}

// domain is a Domain at work.
type domain struct {
	Domain
	identifiers map[string]*identifier
	gatekeepers int
	counts      DomainCounts
}

// identifier is what is known of one.
type identifier struct {
	states  []state
	until   int64 // the latest that was told, in milliseconds since 1970
	stored  bool  // the store was asked for it
	changed bool  // the store does not have it as it is
}

// expires is the last moment at which it means anything.
func (x *identifier) expires() int64 {
	latest := int64(0)
	for i := range x.states {
		latest = max(latest, x.states[i].expires)
	}
	return latest
}

// find returns what is known of an identifier, anew if nothing is.
func (d *domain) find(name []byte) *identifier {
	if x := d.identifiers[string(name)]; x != nil {
		return x
	}
	if len(d.identifiers) >= d.Identifiers {
		d.evict()
	}
	x := &identifier{states: make([]state, len(d.Rules))}
	d.identifiers[string(name)] = x
	return x
}

// evict forgets the one of a few, met by chance, that means something for the
// shortest time: who owes most is not washed away by inventing identifiers.
func (d *domain) evict() {
	var victim string
	least, seen := int64(0), 0
	for name, x := range d.identifiers {
		if e := max(x.expires(), x.until); seen == 0 || e < least {
			victim, least = name, e
		}
		if seen++; seen == evictOf {
			break
		}
	}
	delete(d.identifiers, victim)
	d.counts.Evicted++
}

// sweep forgets some of those that mean nothing any more. Go walks a map from a
// place chosen by chance, so that each is looked at before long.
func (d *domain) sweep(now int64, most int) {
	for name, x := range d.identifiers {
		if x.expires() < now && x.until < now {
			delete(d.identifiers, name)
		}
		if most--; most == 0 {
			return
		}
	}
}

// adopt goes on with other settings. What is known of the identifiers stays as
// long as the rules are the same.
func (d *domain) adopt(n Domain) {
	if !slices.Equal(d.Rules, n.Rules) {
		d.identifiers = make(map[string]*identifier)
	}
	d.Domain = n
}
