package classify

import (
	"net/netip"

	"go4.org/netipx"
)

// PrefixSet is a set of addresses given by prefixes. The zero value is empty.
type PrefixSet struct{ set *netipx.IPSet }

// NewPrefixSet makes a set of prefixes. It ignores invalid ones.
func NewPrefixSet(prefixes []netip.Prefix) PrefixSet {
	var all netipx.IPSetBuilder
	for _, p := range prefixes {
		if p.IsValid() {
			all.AddPrefix(Unmap(p))
		}
	}
	set, _ := all.IPSet() // it fails only for invalid prefixes
	return PrefixSet{set}
}

// Contains reports whether a is in the set. It does not allocate.
func (s PrefixSet) Contains(a netip.Addr) bool { return s.set != nil && s.set.Contains(a) }

// Overlaps reports whether any address of p is in the set.
func (s PrefixSet) Overlaps(p netip.Prefix) bool {
	return s.set != nil && s.set.OverlapsPrefix(Unmap(p))
}

// Unmap masks p and turns a prefix of mapped IPv4 addresses into an IPv4 prefix, because addresses are
// unmapped before they are compared.
func Unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
