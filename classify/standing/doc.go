// Package standing judges, from requests and answers, whether a client behaves like a person's browser. The
// result, the standing, multiplies the client's share of the machine. The package also distinguishes the
// sessions behind one address.
//
// Everything that the package reads comes from the client or from a page of the site, so the package limits
// everything that it stores: only keyed hashes, in tables of limited size. It doesn't read the clock.
//
// # Clients that invent identities
//
// A client that sends back a cookie of the site is a session. A session counts as a client of its own, but
// within its address's share. It counts at only one address at a time (sessions.go), and an address has at
// most 64 sessions in use. Clients without a session at an address are distinguished by their User-Agents, as
// one of eight faces (Judge.face). A client therefore gains nothing by using one cookie at many addresses or by
// inventing User-Agents. With many cookies that the site has set, a client gains as much as a crowded office: at
// most eight times one client's share. Sessions without requests don't increase this factor. Those that request
// more pages than a person reads hardly increase it (visitor.partOfAPerson), and share one client's part. Only
// HTML pages count. Requests for JSON don't, because a person's browser may send many for each page, and each may
// cost as much as a page. While newcomers are redirected, a client gets about a tenth more with twenty cookies
// than with one (TestFarmOfEntrances in internal/sim). Cookies that no client has sent back yet are in a separate
// table (handedOut), in which each address may use only a part.
//
// # Parts of pages
//
// Requests for style sheets, scripts, images and fonts matter in two ways. A client that imitates them gains
// little.
//
// First, parts are evidence that a client shows its pages to a person. They must soon follow a page, and the
// answer must be 200 with the content type of a part, or 304. A program that knows this can request some
// parts. The evidence therefore only doubles the share, and only while the client loads at least one part for
// every two pages. A new session begins with a few of the parts that its address has loaded.
//
// Second, parts belong to a page that the client was just served (classify.Result.Follows): up to 64 parts of
// a page within 20 s. A person can't use a page without its parts, so they get the rank that the page had.
// This is decided before the answer is known, so any request whose name looks like that of a part counts. The
// gate applies it only to short requests, and charges them like all others, so expensive requests gain
// nothing.
package standing
