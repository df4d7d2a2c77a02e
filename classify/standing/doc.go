// Package standing judges, by what requests and answers show, whether a client behaves as
// a person's browser does. What it finds multiplies the client's share of the machine, and
// tells the sessions behind one address apart.
//
// Everything it reads was written by the client or by a page of the site, so everything is
// bounded. It reads no clock. What it remembers are tables of a bounded size, of hashes with
// a secret key.
//
// # Many faces are one
//
// A client that has a cookie that the site gave it is a session, a client of its own within its
// address's share. A session is at one address at a time (sessions.go), and an address has at
// most 64 in use. Clients without one are distinguished by their User-Agents, as one of eight
// faces (Judge.face). So no number of cookies, addresses that share one, or invented
// User-Agents makes a client more than its address is. Cookies that were given and never came
// back are in a table of their own (handedOut), in which an address has a bounded part.
//
// # Parts of pages
//
// Style sheets, scripts, images and fonts count twice, and each time little is gained
// by a request that only looks like one.
//
// They prove that a client shows its pages to a person, if they come soon after a page and were
// answered 200 with a part's type, or 304. A program that knows this can ask for some, so they
// are worth twice the share and no more, and only while there is at least one part for every
// two pages.
//
// They follow a page that the client was just served (classify.Result.Follows): within 20 s, 64
// of a page. A person sees the page when its parts are there, so they are served as it was.
// This is decided before the answer is known, so anything with a part's name counts as one. The
// gate lets it matter for short requests only, and charges them like all others: an expensive
// one gains nothing by it, and 64 short ones for each page that waited its turn are what a
// browser asks for.
package standing
