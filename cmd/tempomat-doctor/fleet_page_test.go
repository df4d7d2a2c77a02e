//go:build world

package main

import (
	"fmt"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWorldFleetDashboard opens the dashboard of ten instances, two of which don't answer, in a browser.
func TestWorldFleetDashboard(t *testing.T) {
	_, flags := serveFleet(t)
	base := serveDashboard(t, flags)
	c := testkit.StartChromium(t)
	p := c.Open(testkit.Look{Width: 1280, Height: 800})
	p.Visit(base + "/")
	p.Await("it asks for the token", `document.querySelector('#ask-token').open`)
	p.Eval(fmt.Sprintf(`document.querySelector('#token-text').value = %q; document.querySelector('#token-form').requestSubmit()`, fleetToken), nil)
	p.Await("it is loaded", `document.querySelector('#state').textContent === 'Live' && document.querySelectorAll('.lines li').length > 9 &&
		document.querySelectorAll('#queue tbody tr').length > 3`)
	name := func(n int) string { return strings.TrimPrefix(flags[2*n+1], "http://") }
	for selector, want := range map[string]string{
		"#release": "on 8 of 10 instances", "#conditions": "2 of 10 instances don't answer", "#queue": " at " + name(1),
		"#health": "Instances differ in the shared secret",
	} {
		if text := p.Text(selector); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %q", selector, want, text)
		}
	}
	if bad := c.Complaints(); len(bad) > 0 {
		t.Errorf("in the console:\n%s", strings.Join(bad, "\n"))
	}
}
