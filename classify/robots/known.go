package robots

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"time"

	"tempomat/classify"
)

// Robot describes a robot. Each known robot has a file in the folder known, named after the robot, and a line
// in TestKnown.
type Robot struct {
	Name     string   `json:"-"`
	Operator string   // the company that runs it
	Kind     Kind     // the purpose of its requests
	Agents   []string // its names in its User-Agents; case doesn't matter
	Lists    []string // URLs (https) at which the operator publishes the robot's addresses, in a format that Published reads
	Domains  []string // domains that only the operator uses, and to which the names of the robot's addresses belong
	Signers  []string // hosts that publish the keys of its signatures (Web Bot Auth)
	About    string   // the operator's documentation

	Addresses []netip.Prefix `json:"-"` // given by an administrator; these replace Lists
}

// Kind is the purpose of a robot's requests.
type Kind string

// The kinds of robots.
const (
	Search   Kind = "search"   // for the index of a search engine
	Training Kind = "training" // for the training of a model
	Person   Kind = "person"   // for a person who wants the page now
	Monitor  Kind = "monitor"  // for the site's owner, to see whether the site works
)

// Account returns the name of the robot's account. All robots of an operator that fetch pages for people
// share one account.
func (r *Robot) Account() string {
	if r.Kind == Person {
		return strings.ToLower(r.Operator) + " for people"
	}
	return r.Name
}

//go:embed known/*.json
var known embed.FS

// Known returns the robots in the folder known. TestKnown checks that each file is valid.
func Known() (all []Robot) {
	names, _ := fs.Glob(known, "known/*.json") // the pattern is valid, and TestKnown checks the files
	for _, name := range names {
		r := Robot{Name: strings.TrimSuffix(path.Base(name), ".json")}
		text, _ := known.ReadFile(name)
		_ = json.Unmarshal(text, &r)
		all = append(all, r)
	}
	return all
}

// Lists holds the lists of addresses that operators publish. A value is immutable, and newer lists are in a new
// value.
type Lists struct {
	of  map[string]List // by URL
	all classify.PrefixSet
}

// List is one list of addresses.
type List struct {
	Networks  classify.PrefixSet
	Prefixes  []netip.Prefix // the same addresses
	Confirmed time.Time      // when the operator was last seen to publish exactly these
}

// UpToDate is how long a list counts as complete after the operator was last seen to publish it. During that
// time, a robot can't have any other address. An older list still verifies the addresses on it, but says
// nothing about others.
const UpToDate = 7 * 24 * time.Hour

// NewLists makes Lists from lists by URL.
func NewLists(of map[string]List) *Lists {
	var all []netip.Prefix
	for _, l := range of {
		all = append(all, l.Prefixes...)
	}
	return &Lists{of, classify.NewPrefixSet(all)}
}

// Of returns the list from a URL. It is empty if there is none.
func (l *Lists) Of(url string) List { return l.of[url] }

// Published reads the addresses and prefixes of an operator's list. The list is in JSON ({"prefixes":
// [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]}) or in a web page that shows this JSON.
func Published(text string) ([]string, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		text = html.UnescapeString(text)
		at := strings.LastIndexByte(text[:max(0, strings.Index(text, `"prefixes"`))], '{')
		text = text[max(0, at):]
	}
	var list struct {
		Prefixes []struct {
			IPv4Prefix, IPv6Prefix string
			IPPrefix               string `json:"ip_prefix"`
		}
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&list); err != nil {
		return nil, fmt.Errorf("isn't a JSON list of prefixes: %w", err)
	}
	all := make([]string, 0, len(list.Prefixes))
	for _, p := range list.Prefixes {
		for _, text := range []string{p.IPv4Prefix, p.IPv6Prefix, p.IPPrefix} {
			if text != "" {
				all = append(all, text)
			}
		}
	}
	return all, nil
}
