package classify

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// PrefixSet is a set of addresses given by prefixes: ranges that do not
// overlap, in order, found by halving. A content network's few hundred
// prefixes cost eight comparisons, and the usual one or two next to nothing.
type PrefixSet []addressRange

type addressRange struct{ first, last netip.Addr }

// NewPrefixSet makes a set of prefixes. Its error names those that are not valid, counted from 1.
func NewPrefixSet(prefixes []netip.Prefix) (PrefixSet, error) {
	var faults []error
	ranges := make(PrefixSet, 0, len(prefixes))
	for i, p := range prefixes {
		if !p.IsValid() {
			faults = append(faults, fmt.Errorf("prefix %d is not valid", i+1))
			continue
		}
		p = unmap(p)
		ranges = append(ranges, addressRange{first: p.Addr(), last: lastAddress(p)})
	}
	slices.SortFunc(ranges, func(a, b addressRange) int {
		return cmp.Or(a.first.Compare(b.first), b.last.Compare(a.last)) // the wider one first
	})
	merged := ranges[:0]
	for _, r := range ranges {
		// Prefixes are nested or apart: one that begins inside ends inside.
		if n := len(merged); n > 0 && r.first.Compare(merged[n-1].last) <= 0 {
			continue
		}
		merged = append(merged, r)
	}
	return merged, errors.Join(faults...)
}

// Contains reports whether a is in the set. It does not allocate.
func (s PrefixSet) Contains(a netip.Addr) bool {
	for len(s) > 0 {
		middle := len(s) / 2
		switch r := &s[middle]; {
		case a.Less(r.first):
			s = s[:middle]
		case r.last.Less(a):
			s = s[middle+1:]
		default:
			return true
		}
	}
	return false
}

// Overlaps reports whether an address of p is in the set.
func (s PrefixSet) Overlaps(p netip.Prefix) bool {
	p = unmap(p)
	last := lastAddress(p)
	at := sort.Search(len(s), func(i int) bool { return !s[i].last.Less(p.Addr()) })
	return at < len(s) && !last.Less(s[at].first)
}

// unmap masks p, and turns a prefix of mapped IPv4 addresses into the IPv4 prefix that it
// means, because addresses are unmapped before they are compared.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

func lastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := bits; i < 128; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last := netip.AddrFrom16(bytes)
	if p.Addr().Is4() {
		return last.Unmap()
	}
	return last
}
