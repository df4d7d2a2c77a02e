// Package newcomer distinguishes a new browser from a program that keeps nothing, while both
// wait for a full server: a client that asks for a page is answered at once with a redirect to
// the same URL and a signed cookie, the pass. A browser is back with it within a round trip,
// without a script, and its user notices nothing.
//
// A pass proves that its client keeps cookies, nothing more. A crawler that keeps them gets one
// too, so a pass is a reason to go first among strangers, and never one to stop charging a
// client.
//
// Nothing here reads a clock.
package newcomer
