package classify

import (
	"crypto/tls"
	"net/http"
	"testing"

	"tempomat/internal/testkit"
)

// TestSecure: only a trusted peer can state that its client used TLS. If several headers say so or deny it, the first
// one counts.
func TestSecure(t *testing.T) {
	for name, x := range map[string]struct {
		tls     bool
		proto   []string
		trusted bool
		want    bool
	}{
		"its own connection":        {true, nil, false, true},
		"no word":                   {false, nil, true, false},
		"a proxy's word":            {false, []string{"https"}, true, true},
		"in any case":               {false, []string{" HTTPS "}, true, true},
		"anybody's word":            {false, []string{"https"}, false, false},
		"the nearest to the client": {false, []string{"http, https"}, true, false},
		"and on several lines":      {false, []string{"https,http", "http"}, true, true},
		"another protocol":          {false, []string{"httpsx"}, true, false},
	} {
		r := &http.Request{Header: http.Header{"X-Forwarded-Proto": x.proto}}
		if x.tls {
			r.TLS = new(tls.ConnectionState)
		}
		testkit.Same(t, x.want, Secure(r, x.trusted), "%s", name)
	}
}
