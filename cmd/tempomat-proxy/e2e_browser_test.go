package main

import (
	"fmt"
	"slices"
	"testing"

	"tempomat/limiter/testkit"
)

// TestBrowserIsRedirected has real browsers come to a full site for the first
// time. Their users see the page that they asked for, at its URL.
func TestBrowserIsRedirected(t *testing.T) {
	for name, start := range map[string]func(*testing.T) browser{"Chromium": startChromium, "Firefox": startFirefox} {
		t.Run(name, func(t *testing.T) {
			b, f := start(t), startFullSite(t, "")
			landsOnce(t, b, f, "/w/page?title=a%2Fb;c&d=%C3%A4", "#part", 1)
			landsOnce(t, b, f, "/second", "", 0)
			if n, want := f.stats().Counters["requests"], uint64(2*2+1+2); n != want { // dear ones and who outwaits, too
				t.Errorf("%d requests in all, want %d", n, want)
			}
		})
	}
}

// landsOnce opens a page while the site is full.
func landsOnce(t *testing.T, b browser, f *fullSite, target, fragment string, redirects uint64) {
	t.Helper()
	empty, before := f.fill(t), f.redirected()
	defer empty()
	b.open(f.url + target + fragment)
	testkit.Eventually(t, "it waits, redirected as is right", func() bool { return f.stats().Held == 1 && f.redirected() == before+redirects })
	f.outwait(t, fmt.Sprint("203.0.113.", 1+redirects))
	empty()
	testkit.Eventually(t, "the page is shown at its URL", func() bool { return b.shows(f.url+target+fragment, target) })
	if saw := f.saw(); !slices.Equal(saw, []string{"GET " + target}) {
		t.Errorf("the site saw %q", saw)
	}
	if n := f.redirected() - before - 1; n != redirects {
		t.Errorf("%s: %d redirects, want %d", target, n, redirects)
	}
}

// TestTabsAreRedirected opens several pages at a time, none of which has a cookie
// as it begins.
func TestTabsAreRedirected(t *testing.T) {
	for name, start := range map[string]func(*testing.T) browser{"Chromium": startChromium, "Firefox": startFirefox} {
		t.Run(name, func(t *testing.T) {
			b, f := start(t), startFullSite(t, "")
			empty := f.fill(t)
			defer empty()
			targets := []string{"/1", "/2", "/3", "/4", "/5"}
			for _, target := range targets {
				b.open(f.url + target)
			}
			testkit.Eventually(t, "all wait, redirected", func() bool { return f.stats().Held == len(targets) && f.redirected() > 0 })
			f.outwait(t, "203.0.113.1")
			empty()
			for _, target := range targets {
				testkit.Eventually(t, target+" is shown", func() bool { return b.shows(f.url+target, target) })
			}
			n := f.redirected() - 1
			if saw := f.saw(); len(saw) != len(targets) || n < 1 || n > uint64(len(targets)) {
				t.Errorf("%d redirects; the site saw %q", n, saw)
			}
			t.Logf("%d redirects for %d tabs", n, len(targets))
		})
	}
}
