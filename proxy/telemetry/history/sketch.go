package history

import (
	"cmp"
	"slices"
	"strings"
)

// counted is how many names of a kind are counted at a time.
const counted = 500

// part is what a part of an hour costs.
type part struct {
	name     string
	cpu      float64 // CPU-seconds
	excess   float64 // by how much cpu may be too high
	requests float64
}

// sure is what it cost for certain.
func (p *part) sure() float64 { return p.cpu - p.excess }

// sketch is the names that cost most, by the space-saving algorithm (Metwally, Agrawal and
// El Abbadi, ICDT 2005), with CPU-seconds in the place of counts: when there is no room,
// the cheapest makes room for the new one, which takes its cost over. Whatever costs more
// than a part in 500 of all is kept, whoever invents the rest.
type sketch struct {
	index map[string]*counter
	heap  []*counter // each costs no more than the two that it stands above
}

type counter struct {
	part
	at int // in the heap
}

func newSketch() *sketch { return &sketch{index: make(map[string]*counter)} }

// add counts requests of a name and what they cost. It keeps a copy of the name.
func (s *sketch) add(name []byte, cpu, requests float64) {
	c, ok := s.index[string(name)]
	switch {
	case ok:
		c.cpu += cpu
		c.requests += requests
	case len(s.heap) < counted:
		s.put(part{name: string(name), cpu: cpu, requests: requests})
		return
	case cpu == 0:
		return // it would drive out one that costs something
	default:
		c = s.heap[0]
		delete(s.index, c.name)
		c.part = part{name: string(name), cpu: c.cpu + cpu, excess: c.cpu, requests: requests}
		s.index[c.name] = c
	}
	s.down(c)
}

// put adds a part that is not there, if there is room.
func (s *sketch) put(p part) {
	if s.index[p.name] != nil || len(s.heap) == counted {
		return
	}
	c := &counter{part: p, at: len(s.heap)}
	s.index[p.name] = c
	s.heap = append(s.heap, c)
	for c.at > 0 {
		above := s.heap[(c.at-1)/2]
		if above.cpu <= c.cpu {
			return
		}
		s.swap(c, above)
	}
}

// down moves a counter that has grown to where it belongs.
func (s *sketch) down(c *counter) {
	for {
		least := c
		for i := 2*c.at + 1; i <= 2*c.at+2 && i < len(s.heap); i++ {
			if s.heap[i].cpu < least.cpu {
				least = s.heap[i]
			}
		}
		if least == c {
			return
		}
		s.swap(c, least)
	}
}

func (s *sketch) swap(a, b *counter) {
	a.at, b.at = b.at, a.at
	s.heap[a.at], s.heap[b.at] = a, b
}

// dearest returns the first of those that cost something, by what they cost for certain.
func (s *sketch) dearest(most int) []part {
	parts := make([]part, 0, len(s.heap))
	for _, c := range s.heap {
		if c.cpu > 0 {
			parts = append(parts, c.part)
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.sure(), a.sure()), strings.Compare(a.name, b.name))
	})
	return parts[:min(len(parts), most)]
}
