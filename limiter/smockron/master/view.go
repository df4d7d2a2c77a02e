package master

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// State is what the doctor shows of a master.
type State struct {
	Counts  Counts        `json:"counts"`
	Unsaved int           `json:"unsaved"` // identifiers that the store does not have as they are
	Lost    uint64        `json:"lost"`    // changes that were never saved, as there were too many
	Domains []DomainState `json:"domains"`
}

// DomainState is what it shows of a domain.
type DomainState struct {
	Name        string       `json:"name"`
	Rules       []string     `json:"rules"`
	Identifiers int          `json:"identifiers"`
	Gatekeepers int          `json:"gatekeepers"` // that subscribed to it
	Counts      DomainCounts `json:"counts"`
}

// IdentifierState is what it shows of an identifier.
type IdentifierState struct {
	Identifier string  `json:"identifier"`
	Wait       float64 `json:"wait"`  // seconds until it may ask again; 0: at once
	Until      int64   `json:"until"` // when that is or was, in milliseconds since 1970; 0: it never had to wait
}

// State is a picture of the whole.
func (m *Master) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Counts: m.counts, Unsaved: len(m.saver.unsaved), Lost: m.saver.dropped}
	s.Counts.Malformed = maps.Clone(m.counts.Malformed)
	for _, name := range slices.Sorted(maps.Keys(m.domains)) {
		d := m.domains[name]
		v := DomainState{
			Name: name, Rules: []string{}, Identifiers: len(d.identifiers), Gatekeepers: d.gatekeepers, Counts: d.counts,
		}
		for i := range d.Rules {
			v.Rules = append(v.Rules, d.Rules[i].String())
		}
		s.Domains = append(s.Domains, v)
	}
	return s
}

// Identifiers are those of a domain that wait longest, at most so many, and false
// if there is no such domain.
func (m *Master) Identifiers(now time.Time, name string, most int) ([]IdentifierState, bool) {
	m.mu.Lock()
	d := m.domains[name]
	all := []IdentifierState{}
	if d != nil {
		for id, x := range d.identifiers {
			wait := float64(x.until-now.UnixMilli()) / 1000
			all = append(all, IdentifierState{id, max(0, wait), x.until})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b IdentifierState) int {
		return cmp.Or(cmp.Compare(b.Wait, a.Wait), cmp.Compare(a.Identifier, b.Identifier))
	})
	return all[:min(len(all), most)], d != nil
}

// count takes over how much accounting was dropped as there was too much.
func (m *Master) count(overload uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Overload = overload
}

func (m *Master) late() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Late++
}

// subscribed notes a gatekeeper that came or went.
func (m *Master) subscribed(name []byte, came bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.domains[string(name)]
	if d == nil {
		return
	}
	if came {
		d.gatekeepers++
	} else {
		d.gatekeepers = max(0, d.gatekeepers-1)
	}
}
