package telemetry

import (
	"slices"
	"sync/atomic"
)

// named are the counters of what the configuration names. They are never changed, only
// replaced: a reload brings others.
type named struct {
	classes []*ClassCount
	limits  []*LimitCount
}

// ClassCount counts the requests that a class was to blame for.
type ClassCount struct {
	name                       string
	delayed, refused, shadowed atomic.Uint64
}

// LimitCount counts the requests that a request limit was for. Its methods may be called
// concurrently.
type LimitCount struct {
	name                       string
	matched, refused, shadowed atomic.Uint64
}

// Match counts a request that the limit is for.
func (l *LimitCount) Match() { l.matched.Add(1) }

// SetNames says which classes and request limits there are. The counts of those that stay
// go on; those of others are forgotten, so that there are never more than configured.
func (c *Counts) SetNames(classes, limits []string) {
	c.naming.Lock()
	defer c.naming.Unlock()
	old, n := c.named.Load(), new(named)
	for _, name := range classes {
		if i := slices.IndexFunc(old.classes, func(c *ClassCount) bool { return c.name == name }); i >= 0 {
			n.classes = append(n.classes, old.classes[i])
		} else {
			n.classes = append(n.classes, &ClassCount{name: name})
		}
	}
	for _, name := range limits {
		l := old.limit(name)
		if l == nil {
			l = &LimitCount{name: name}
		}
		n.limits = append(n.limits, l)
	}
	c.named.Store(n)
}

// Limit is the counter of a request limit, a new one if there is none of that name. It is
// kept if the next SetNames tells of it.
func (c *Counts) Limit(name string) *LimitCount {
	c.naming.Lock()
	defer c.naming.Unlock()
	old := c.named.Load()
	if l := old.limit(name); l != nil {
		return l
	}
	n := &named{classes: old.classes, limits: append(slices.Clone(old.limits), &LimitCount{name: name})}
	c.named.Store(n)
	return n.limit(name)
}

func (n *named) limit(name string) *LimitCount {
	for _, l := range n.limits {
		if l.name == name {
			return l
		}
	}
	return nil
}

// count takes in a request that a class or a limit acted on, or would have.
func (n *named) count(r *Record) {
	if l := n.limit(r.Limit); l != nil {
		if r.Outcome == Refused {
			l.refused.Add(1)
		} else {
			l.shadowed.Add(1)
		}
	}
	v := &r.Verdict
	would := v.Would.Key.Class
	if would == "" && v.Shadow {
		would = v.Key.Class
	}
	if c := n.class(would); c != nil {
		c.shadowed.Add(1)
	}
	if c := n.class(v.Key.Class); c != nil && !v.Shadow {
		if r.Outcome == Refused {
			c.refused.Add(1)
		} else {
			c.delayed.Add(1)
		}
	}
}

func (n *named) class(name string) *ClassCount {
	for _, c := range n.classes {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (n *named) addTo(t *Totals) {
	for _, c := range n.classes {
		t.Classes = append(t.Classes, ClassTotals{c.name, c.delayed.Load(), c.refused.Load(), c.shadowed.Load()})
	}
	for _, l := range n.limits {
		t.Limits = append(t.Limits, LimitTotals{l.name, l.matched.Load(), l.refused.Load(), l.shadowed.Load()})
	}
}
