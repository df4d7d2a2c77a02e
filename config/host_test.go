package config

import "testing"

// TestHosts: a host is stored as it appears in requests, or rejected.
func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"Shop.Example":      "shop.example",
		"shop.example.":     "shop.example",
		"*.shop.example":    "*.shop.example",
		"192.0.2.1":         "192.0.2.1",
		"[192.0.2.1]":       "192.0.2.1",
		"2001:DB8:0::1":     "[2001:db8::1]",
		"[2001:db8::1]":     "[2001:db8::1]",
		"[fe80::1%eth0]":    "",
		"a..":               "",
		"a..b":              "",
		".a":                "",
		"*.":                "",
		"*":                 "",
		"shop.example:8080": "",
		"*.[::1]":           "",
		"bücher.example":    "",
	} {
		got, err := hostPattern().Parse(text)
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
