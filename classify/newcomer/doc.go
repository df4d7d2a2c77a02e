// Package newcomer tells a browser that has never been here from a program that
// keeps nothing, while both wait for a server that is full: who asks for a page
// is answered at once with a redirect to the same URL and a signed cookie, the
// pass. A browser is back with it within a round trip, without a script, and
// its user sees nothing of that.
//
// A pass proves that its client keeps cookies, nothing more. A crawler that
// keeps them gets one too, so a pass is a reason to go first among strangers
// and never one to stop counting what somebody costs.
//
// Nothing here reads a clock. One file for each idea:
//
//	redirector.go  the calls: who has a pass, who is redirected, how many were
//	eligible.go    which requests are a person's click on a link
//	location.go    which request targets a redirect may name
//	pass.go        a pass: what is in it, and which ones count
//	keys.go        the keys that sign it, kept over a restart
//	cookie.go      where passes lie in a Cookie header, and the header without
//	recent.go      addresses that were redirected lately
package newcomer
