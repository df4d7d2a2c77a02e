// Package errorpage makes the pages that people see where the proxy itself answers a
// request: it refuses it, or the backend does not answer.
//
// All pages are made when a Set is loaded: for each host that has pages of its own, each
// language and each Cause. What differs from request to request is left out then, and put
// between the ready pieces when a page is asked for: the id of the request, the client's own
// address and the time after which to try again. So a request costs a look-up and a copy, and
// nothing is executed for it.
//
// What is put in is digits, letters and a few harmless signs only, whatever a caller gives:
// a page may use it at any place.
//
//	cause.go     why a request is not served
//	wish.go      which form of answer a client asks for
//	language.go  which language it asks for
//	texts.go     what a page says, in the languages that are shipped
//	page.go      one page, ready but for its holes
//	load.go      the pages of a directory
//	template.go  one file of it, and what it makes
//	set.go       which page is shown
package errorpage
