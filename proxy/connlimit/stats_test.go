package connlimit

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"tempomat/internal/testkit"
)

func TestKeys(t *testing.T) {
	for address, want := range map[string][3]string{
		"203.0.113.9":               {"203.0.113.9/32", "203.0.113.0/24", "203.0.0.0/16"},
		"::ffff:203.0.113.9":        {"203.0.113.9/32", "203.0.113.0/24", "203.0.0.0/16"},
		"255.255.255.255":           {"255.255.255.255/32", "255.255.255.0/24", "255.255.0.0/16"},
		"0.0.0.0":                   {"0.0.0.0/32", "0.0.0.0/24", "0.0.0.0/16"},
		"2001:db8:1:2:3:4:5:6":      {"2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8::/32"},
		"2001:db8:1:ffff:3:4:5:6%x": {"2001:db8:1:ffff::/64", "2001:db8:1::/48", "2001:db8::/32"},
		"::1":                       {"::/64", "::/48", "::/32"},
	} {
		for k := range kinds {
			testkit.Same(t, want[k], k.key(ClientOf(netip.MustParseAddr(address))).String(), "%s", address)
		}
		testkit.Same(t, netip.MustParsePrefix(want[0]).Addr(), ClientOf(netip.MustParseAddr(address)), "%s counts as", address)
	}
	if got := whole.key(ClientOf(netip.Addr{})); got.IsValid() {
		t.Errorf("no address is %s", got)
	}
}

func TestStats(t *testing.T) {
	r := newRoom(t, 1000)
	for i := range 9 {
		r.enter(10+i, nth("192.0.2.%d", i))
		r.enter(3, nth("198.51.%d.1", i))
		r.enter(2, nth("2001:db8:7:%d::1", i))
	}
	r.table.Enter(r.now, netip.Addr{}, false, &flag{})
	s := r.table.Stats(3)
	want := `{"open":172,"most":1000,"addresses":28,"shed":0,"refused":0,` +
		`"top":[{"prefix":"192.0.2.8/32","open":18},{"prefix":"192.0.2.7/32","open":17},{"prefix":"192.0.2.6/32","open":16}],` +
		`"networks":[{"prefix":"192.0.0.0/16","open":126},{"prefix":"192.0.2.0/24","open":126},{"prefix":"198.51.0.0/16","open":27}]}`
	if got, err := json.Marshal(s); err != nil || string(got) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
	all := r.table.Stats(1000)
	if len(all.Top) != 28 || len(all.Networks) != 5 {
		t.Errorf("%d addresses and %d networks are told", len(all.Top), len(all.Networks))
	}
	testkit.Same(t, "[{2001:db8::/32 18} {2001:db8:7::/48 18}]", fmt.Sprint(all.Networks[3:]), "networks")
	if none := r.table.Stats(0); len(none.Top) != 0 || len(none.Networks) != 0 || none.Open != 172 {
		t.Errorf("%+v", none)
	}
}
