package master

import (
	"context"
	"time"

	"tempomat/limiter/smockron"
)

// Store keeps what a master knows of identifiers beyond its life. One goroutine
// calls it, and nothing waits for it.
type Store interface {
	// Load calls each with every record of a domain.
	Load(ctx context.Context, domain string, each func(Record)) error
	// Fetch fills in the states of the records; empty if there is none.
	Fetch(ctx context.Context, records []Record) error
	// Save keeps the records until they expire.
	Save(ctx context.Context, records []Record) error
}

// Record is what a store keeps of an identifier.
type Record struct {
	Domain, Identifier string
	State              string
	Expires            time.Time
}

// maxUnsaved bounds how many identifiers wait to be saved. While the store is
// away it is the set of those that changed, not a queue of changes.
const maxUnsaved = 200_000

// saver is what of a master's knowledge is on its way to a store.
type saver struct {
	on      bool // there is one
	unsaved []unsaved
	dropped uint64
}

type unsaved struct {
	domain *domain
	name   string
	*identifier
}

// lives tells whether the identifier was not forgotten meanwhile.
func (u unsaved) lives() bool { return u.domain.identifiers[u.name] == u.identifier }

// note marks an identifier as changed.
func (s *saver) note(d *domain, name []byte, x *identifier) {
	if !s.on || x.changed {
		return
	}
	if len(s.unsaved) >= maxUnsaved {
		s.dropped++
		return
	}
	x.changed = true
	s.unsaved = append(s.unsaved, unsaved{d, string(name), x})
}

// forget drops what is of domains that are gone.
func (s *saver) forget(domains map[string]*domain) {
	kept := s.unsaved[:0]
	for _, u := range s.unsaved {
		if domains[u.domain.Name] == u.domain && u.lives() {
			kept = append(kept, u)
		}
	}
	clear(s.unsaved[len(kept):])
	s.unsaved = kept
}

// restore takes in all that the store knows, and returns the orders that follow
// from it: gatekeepers that asked before hear of them so.
func (m *Master) restore(ctx context.Context, s Store, now func() time.Time) (news []delayOrder, err error) {
	m.mu.Lock()
	m.saver.on = true
	var names []string
	for name := range m.domains {
		names = append(names, name)
	}
	m.mu.Unlock()
	for _, name := range names {
		err := s.Load(ctx, name, func(r Record) {
			if o, is := m.merge(now(), r); is {
				news = append(news, o)
			}
		})
		if err != nil {
			return news, err
		}
	}
	return news, nil
}

// merge takes in what the store knows of an identifier, and returns the order that
// follows from it, if that is news.
func (m *Master) merge(now time.Time, r Record) (o delayOrder, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.domains[r.Domain]
	if d == nil || len(r.Identifier) > smockron.MaxIdentifier {
		return o, false
	}
	at := now.UnixMilli()
	x := d.find([]byte(r.Identifier))
	x.stored = true
	mergeStates(r.State, d.Rules, x.states, at)
	until := int64(0)
	for i := range d.Rules {
		until = max(until, d.Rules[i].next(&x.states[i], at))
	}
	if until <= at || until <= x.until {
		return o, false
	}
	x.until = until
	return delayOrder{d.Name, r.Identifier, until}, true
}

// saveAtOnce is how many identifiers go to the store together.
const saveAtOnce = 5_000

// save brings the store up to date, and returns the orders that follow from what
// another master left there. What could not be saved stays to be saved.
func (m *Master) save(ctx context.Context, s Store, now func() time.Time) (news []delayOrder, err error) {
	for {
		batch := m.takeUnsaved()
		if len(batch) == 0 {
			return news, nil
		}
		more, err := m.saveBatch(ctx, s, now, batch)
		news = append(news, more...)
		if err != nil {
			m.putBack(batch)
			return news, err
		}
	}
}

func (m *Master) takeUnsaved() []unsaved {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.saver.unsaved
	n := min(len(all), saveAtOnce)
	batch := append([]unsaved(nil), all[len(all)-n:]...)
	clear(all[len(all)-n:])
	m.saver.unsaved = all[:len(all)-n]
	return batch
}

func (m *Master) saveBatch(ctx context.Context, s Store, now func() time.Time, batch []unsaved) (news []delayOrder, err error) {
	var unknown, records []Record
	m.mu.Lock()
	for _, u := range batch {
		if !u.stored {
			unknown = append(unknown, Record{Domain: u.domain.Name, Identifier: u.name})
		}
	}
	m.mu.Unlock()
	if len(unknown) > 0 {
		if err := s.Fetch(ctx, unknown); err != nil {
			return nil, err
		}
	}
	for _, r := range unknown {
		if o, is := m.merge(now(), r); is {
			news = append(news, o)
		}
	}
	m.mu.Lock()
	var text []byte
	for _, u := range batch {
		if u.changed = false; !u.lives() {
			continue
		}
		text = appendStates(text[:0], u.domain.Rules, u.states)
		records = append(records, Record{u.domain.Name, u.name, string(text), time.UnixMilli(u.expires())})
	}
	m.mu.Unlock()
	return news, s.Save(ctx, records)
}

// putBack marks as changed again what could not be saved.
func (m *Master) putBack(batch []unsaved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	marked := make(map[*identifier]bool, len(m.saver.unsaved))
	for _, u := range m.saver.unsaved {
		marked[u.identifier] = true
	}
	for _, u := range batch {
		switch {
		case marked[u.identifier]:
		case len(m.saver.unsaved) < maxUnsaved:
			u.changed = true
			m.saver.unsaved = append(m.saver.unsaved, u)
		default:
			u.changed = false
			m.saver.dropped++
		}
	}
	m.saver.forget(m.domains)
}
