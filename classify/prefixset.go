package classify

import (
	"errors"
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// PrefixSet is a set of addresses given by prefixes. The zero value is empty.
type PrefixSet struct{ set *netipx.IPSet }

// NewPrefixSet makes a set of prefixes. The error lists invalid prefixes by their number, from 1.
func NewPrefixSet(prefixes []netip.Prefix) (PrefixSet, error) {
	var faults []error
	var all netipx.IPSetBuilder
	for i, p := range prefixes {
		if !p.IsValid() {
			faults = append(faults, fmt.Errorf("prefix %d is not valid", i+1))
			continue
		}
		all.AddPrefix(unmap(p))
	}
	set, err := all.IPSet()
	return PrefixSet{set}, errors.Join(append(faults, err)...)
}

// Contains reports whether a is in the set. It does not allocate.
func (s PrefixSet) Contains(a netip.Addr) bool { return s.set != nil && s.set.Contains(a) }

// Overlaps reports whether any address of p is in the set.
func (s PrefixSet) Overlaps(p netip.Prefix) bool {
	return s.set != nil && s.set.OverlapsPrefix(unmap(p))
}

// unmap masks p and turns a prefix of mapped IPv4 addresses into an IPv4 prefix, because addresses are
// unmapped before they are compared.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
