package config

import (
	"errors"
	"net/netip"

	"tempomat/config/form"
)

// prefix is an address or a prefix of addresses.
func prefix() form.Scalar[netip.Prefix] {
	return form.Scalar[netip.Prefix]{
		Type: "prefix", Allowed: "an address or a prefix, such as `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`",
		Schema: form.Schema{"type": "string"},
		Parse:  parsePrefix, Format: netip.Prefix.String,
	}
}

// prefixes is a list of them.
func prefixes() form.List[netip.Prefix] { return form.List[netip.Prefix]{Of: prefix(), Most: 1024} }

// parsePrefix takes a prefix or a single address; v4-mapped ones become IPv4,
// bits beyond the prefix are dropped.
func parsePrefix(text string) (netip.Prefix, error) {
	const problem = "must be an address or a prefix, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New(problem)
	}
	if prefix.Addr().Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errors.New(problem)
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}
