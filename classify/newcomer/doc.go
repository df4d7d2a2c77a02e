// Package newcomer distinguishes new browsers from programs that keep no cookies, while both wait because the
// server is full. A client that requests a page is redirected to the same URL and gets a signed cookie, the
// pass. A browser returns the pass within a round trip. It needs no script, and its user notices nothing.
//
// A pass proves only that its client keeps cookies, as some crawlers do. Clients with a pass therefore go
// first among strangers, but are charged like all others.
//
// This package doesn't read the clock; callers pass in the time.
package newcomer
