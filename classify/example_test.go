package classify_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"

	"tempomat/classify"
)

// A request came from a trusted proxy, which names the client's address. The request is charged to the address,
// to its network and to the family of the request's User-Agent.
func ExampleClassifier_Classify() {
	c := classify.New(classify.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Classes: []classify.Class{
			{Name: "address", By: classify.Slash32},
			{Name: "network", By: classify.Slash24},
			{Name: "agent", By: classify.UserAgent},
		},
		Exempt: []classify.Exemption{{Path: "/healthz"}},
	})
	var found classify.Result // can be used again for the next request
	for _, target := range []string{"/blog/12?page=3", "/healthz"} {
		r := httptest.NewRequest("GET", target, nil)
		r.RemoteAddr = "10.0.0.2:40000"
		// The client wrote the first address itself. The classifier ignores it.
		r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.9")
		r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0")
		c.Classify(r, &found)
		fmt.Println(found.Client, found.Shape, "exempt:", found.Exempt)
		for _, k := range found.Keys() {
			fmt.Printf("  %s: %s\n", k.Class, k.ID)
		}
	}
	// Output:
	// 203.0.113.9 /blog/*?page exempt: false
	//   address: 203.0.113.9
	//   network: 203.0.113.0/24
	//   agent: firefox linux
	// 203.0.113.9 /healthz exempt: true
}
