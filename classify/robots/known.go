package robots

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"time"

	"tempomat/classify"
)

// Robot is what is known of a robot. It is a file in the folder known, and the file's name is the
// robot's. A new one also needs a line in TestKnown.
type Robot struct {
	Name     string   `json:"-"`
	Operator string   // its operator
	Kind     Kind     // what it fetches for
	Agents   []string // its names in its User-Agents; case does not matter
	Lists    []string // URLs (https) at which the operator publishes its addresses; see Published
	Domains  []string // of the operator alone, below which the names of its addresses are, and lead back to them
	Signers  []string // hosts that publish the keys with which its requests are signed (Web Bot Auth)
	About    string   // where the operator says so

	Addresses []netip.Prefix `json:"-"` // given by an administrator in place of Lists
}

// Kind is what a robot fetches for.
type Kind string

// The kinds of robots.
const (
	Search   Kind = "search"   // an index
	Training Kind = "training" // a model's training
	Person   Kind = "person"   // a person who asks for the page now
	Monitor  Kind = "monitor"  // the site's owner, to see whether it is up
)

// Account is what a robot's account is called. All fetchers for people of one operator are one
// client.
func (r *Robot) Account() string {
	if r.Kind == Person {
		return strings.ToLower(r.Operator) + " for people"
	}
	return r.Name
}

//go:embed known/*.json
var known embed.FS

// Known are the robots of the folder known. TestKnown checks that Read accepts each file.
func Known() []Robot {
	all, _ := Read(known)
	return all
}

// Read reads a folder with a file for each robot. It returns those that are valid, and an error
// that names every fault of the others.
func Read(of fs.FS) (all []Robot, faults error) {
	names, err := fs.Glob(of, "known/*.json")
	for _, name := range names {
		r := Robot{Name: strings.TrimSuffix(path.Base(name), ".json")}
		if fault := r.read(of, name); fault != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, fault))
			continue
		}
		all = append(all, r)
	}
	return all, err
}

func (r *Robot) read(of fs.FS, name string) error {
	text, err := fs.ReadFile(of, name)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return err
	}
	for _, url := range r.Lists {
		if !strings.HasPrefix(url, "https://") {
			err = errors.Join(err, fmt.Errorf("lists: %s must begin with https://", url))
		}
	}
	for _, agent := range r.Agents {
		if classify.SaysBrowser(agent) {
			err = errors.Join(err, fmt.Errorf("agents: %s is the name of a browser", agent))
		}
	}
	switch r.Kind {
	case Search, Training, Person, Monitor:
	default:
		err = errors.Join(err, fmt.Errorf("kind: %q must be search, training, person or monitor", r.Kind))
	}
	if r.Operator == "" || len(r.Agents) == 0 {
		err = errors.Join(err, errors.New("must have an operator and agents"))
	}
	return err
}

// Lists are the lists of addresses that operators publish, at one time. A Lists never changes:
// newer lists are another one.
type Lists struct {
	of  map[string]List // by URL
	all classify.PrefixSet
}

// List is one of them.
type List struct {
	Networks  classify.PrefixSet
	Prefixes  []netip.Prefix // the same
	Confirmed time.Time      // when the operator last published exactly these
}

// upToDate is how long a confirmed list counts as complete: until then its robot has no other
// addresses. An older list still proves the addresses that are on it, but says nothing of others.
const upToDate = 7 * 24 * time.Hour

// NewLists makes Lists of the lists that some URLs have.
func NewLists(of map[string]List) *Lists {
	var all []netip.Prefix
	for _, l := range of {
		all = append(all, l.Prefixes...)
	}
	networks, _ := classify.NewPrefixSet(all) // they are valid, because each list is one
	return &Lists{of, networks}
}

// Of is the list of a URL. If there is none, it has no prefixes.
func (l *Lists) Of(url string) List { return l.of[url] }

// Published reads the addresses and prefixes of a list as operators publish it, in JSON
// ({"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]}) or as a web page
// that shows this JSON.
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
		return nil, fmt.Errorf("is no list in JSON with prefixes: %w", err)
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
