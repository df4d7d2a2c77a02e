package classify

import "strings"

// Evidence is what speaks for, or against, a client being a person's browser.
type Evidence uint8

// The kinds of evidence.
const (
	Cookie        Evidence = 1 << iota // it brought back a cookie that the site gave it
	Parts                              // it loads the style sheets and images of its pages
	Tenure                             // it has been coming for hours
	Attested                           // the backend, or the configuration, vouches for it
	Contradiction                      // its headers are not those of the browser it says it is
	Verified                           // it is the robot that it says it is
	Forged                             // it is not the robot that it says it is
)

// String is the kinds, parted by commas; empty if there are none.
func (e Evidence) String() string {
	var names []string
	for i, name := range []string{"cookie", "parts", "tenure", "attested", "contradiction", "verified", "forged"} {
		if e&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Proves tells whether there is any that a client of a single request could not have. Who
// claims to be a robot that it is not proves nothing.
func (e Evidence) Proves() bool { return e&(Cookie|Parts|Tenure|Attested) != 0 && e&Forged == 0 }

// What a client's share is multiplied by at least, and at most.
const (
	LeastStanding = 0.5
	MostStanding  = 8.0
)
