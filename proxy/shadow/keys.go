package shadow

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// keysCounted is how many keys of a class are counted at a time, and keysKept how many
	// are kept of an hour that is over.
	keysCounted = 200
	keysKept    = 20
)

// met is a key whose requests would have been delayed, refused or redirected.
type met struct {
	Name       string
	Delayed    uint64
	Refused    uint64
	Redirected uint64
	CPU        float64 // CPU-seconds of those that would have been refused
	Longest    float64 // seconds
	Error      uint64  `json:",omitempty"` // as many of the requests may be another key's
}

func (m *met) requests() uint64 { return m.Delayed + m.Refused + m.Redirected + m.Error }

// keys are those of a class whom it would have met most, by the space-saving algorithm: where
// there is no room the one that was met least makes room for the new one, which takes its
// count over as its error.
type keys struct {
	all map[string]*met
}

// of is the counter of a key.
func (k *keys) of(name string) *met {
	if k.all == nil {
		k.all = make(map[string]*met)
	}
	m := k.all[name]
	if m != nil {
		return m
	}
	m = &met{Name: strings.Clone(name)} // it is a part of all that is known of a request
	if len(k.all) >= keysCounted {
		var least *met
		for _, x := range k.all {
			if least == nil || x.requests() < least.requests() {
				least = x
			}
		}
		delete(k.all, least.Name)
		m.Error = least.requests()
	}
	k.all[m.Name] = m
	return m
}

// add counts a request with its fate.
func (m *met) add(would would, waited time.Duration, cpu float64) {
	switch would {
	case wouldDelay:
		m.Delayed++
	case wouldRefuse:
		m.Refused++
		m.CPU += cpu
	case wouldRedirect:
		m.Redirected++
	case wouldServe:
	}
	m.Longest = max(m.Longest, waited.Seconds())
}

// merge adds what another hour says of a key.
func (k *keys) merge(o met) {
	m := k.of(o.Name)
	m.Delayed += o.Delayed
	m.Refused += o.Refused
	m.Redirected += o.Redirected
	m.CPU += o.CPU
	m.Error += o.Error
	m.Longest = max(m.Longest, o.Longest)
}

// top are those that were met for certain most.
func (k *keys) top(n int) []met {
	all := make([]met, 0, len(k.all))
	for _, m := range k.all {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b met) int {
		return cmp.Or(cmp.Compare(b.requests()-b.Error, a.requests()-a.Error), cmp.Compare(b.CPU, a.CPU), strings.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}
