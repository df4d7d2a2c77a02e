package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter/smockron"
)

// Record is what a store keeps for an identifier.
type Record struct {
	Domain, Identifier string
	State              string
	Expires            time.Time
}

// maxUnsaved limits the identifiers that wait to be saved. While Redis can't be reached, the saver remembers
// only which identifiers have changed, not each change.
const maxUnsaved = 200_000

// saver keeps track of the changes that aren't in the store yet.
type saver struct {
	on      bool                 // there is a store
	unsaved map[unsaved]struct{} // identifiers whose current state isn't in the store
	dropped uint64
}

// unsaved names an identifier.
type unsaved struct{ domain, name string }

// note marks an identifier as changed.
func (s *saver) note(u unsaved) {
	if _, marked := s.unsaved[u]; marked || !s.on {
		return
	}
	if len(s.unsaved) >= maxUnsaved {
		s.dropped++
		return
	}
	s.unsaved[u] = struct{}{}
}

// findLocked returns an identifier and its domain. If the identifier was removed, it is nil; if the domain was
// removed, both are nil.
func (m *Master) findLocked(u unsaved) (*domain, *identifier) {
	if d := m.domains[u.domain]; d != nil {
		return d, d.identifiers[u.name]
	}
	return nil, nil
}

// restore loads all records from the store. It returns the resulting orders, for gatekeepers that asked for
// orders before all records were loaded.
func (m *Master) restore(ctx context.Context, s *Store, now func() time.Time) (news []Order, err error) {
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

// merge adds what the store contains about an identifier. It returns the resulting order, if gatekeepers don't
// have it yet.
func (m *Master) merge(now time.Time, r Record) (o Order, news bool) {
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
	return Order{d.Name, r.Identifier, until}, true
}

// saveAtOnce is how many identifiers are saved in one batch.
const saveAtOnce = 5_000

// save writes all changes to the store. It returns orders that result from the records of another master.
// Changes that couldn't be saved are saved later.
func (m *Master) save(ctx context.Context, s *Store, now func() time.Time) (news []Order, err error) {
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

func (m *Master) takeUnsaved() (batch []unsaved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for u := range m.saver.unsaved {
		if len(batch) == saveAtOnce {
			break
		}
		batch = append(batch, u)
		delete(m.saver.unsaved, u)
	}
	return batch
}

func (m *Master) saveBatch(ctx context.Context, s *Store, now func() time.Time, batch []unsaved) (news []Order, err error) {
	var unknown, records []Record
	m.mu.Lock()
	for _, u := range batch {
		if _, x := m.findLocked(u); x != nil && !x.stored {
			unknown = append(unknown, Record{Domain: u.domain, Identifier: u.name})
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
		d, x := m.findLocked(u)
		if x == nil {
			continue
		}
		text = appendStates(text[:0], d.Rules, x.states)
		records = append(records, Record{u.domain, u.name, string(text), time.UnixMilli(x.expires())})
	}
	m.mu.Unlock()
	return news, s.Save(ctx, records)
}

// putBack marks identifiers that couldn't be saved as changed again, except those forgotten in the meantime.
func (m *Master) putBack(batch []unsaved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range batch {
		if _, x := m.findLocked(u); x != nil {
			m.saver.note(u)
		}
	}
}

// The store keeps the states of an identifier's rules in decimal, separated by |. For a single bucket rule,
// this is the number that the first master stores, so either master can continue where the other one stopped.

const between = "|"

// appendStates formats the states of a domain's rules.
func appendStates(b []byte, rules []Rule, states []state) []byte {
	for i := range rules {
		if i > 0 {
			b = append(b, between...)
		}
		b = states[i].append(b, rules[i].Kind)
	}
	return b
}

func (s *state) append(b []byte, k Kind) []byte {
	switch k {
	case Credit:
		b = append(strconv.AppendInt(b, s.at, 10), ' ')
		return strconv.AppendFloat(b, s.level, 'f', 3, 64)
	case History:
		for i := range s.times {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(b, s.times[(s.oldest+i)%len(s.times)], 10)
		}
		return b
	case Bucket:
	}
	return strconv.AppendInt(b, s.at, 10)
}

// mergeStates adds what a store contains about an identifier, if it is readable and newer than the states.
// Merging the same text again, or several texts in another order, gives the same result.
func mergeStates(text string, rules []Rule, states []state, now int64) {
	parts := strings.Split(text, between)
	if len(parts) != len(rules) {
		return // the text was written for other rules
	}
	for i := range rules {
		states[i].merge(parts[i], &rules[i], now)
	}
}

func (s *state) merge(text string, r *Rule, now int64) {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
	case r.Kind == History:
		s.mergeHistory(words, r)
	case r.Kind == Credit && len(words) == 2:
		s.mergeCredit(words, r, now)
	case r.Kind == Bucket && len(words) == 1:
		at, err := smockron.ParseTime([]byte(words[0]))
		if err != nil || s.expires > 0 && at <= s.at {
			return
		}
		s.at = at
		s.expires = max(s.expires, min(at, now)+r.Burst.Milliseconds())
	}
}

func (s *state) mergeCredit(words []string, r *Rule, now int64) {
	at, err := smockron.ParseTime([]byte(words[0]))
	level, bad := strconv.ParseFloat(words[1], 64)
	if err != nil || bad != nil || level != level || level > ms(r.Burst) || at > now {
		return
	}
	r.refill(s, now, 0)
	if level += r.CPUs * float64(now-at); level < s.level {
		s.level = level
		s.expires = now + int64((ms(r.Burst)-level)/r.CPUs) + 1
	}
}

// mergeHistory puts the times from the store in front of those since the start. It is called at the first
// lookup of an identifier.
func (s *state) mergeHistory(words []string, r *Rule) {
	size := r.requests()
	var all []int64
	for _, word := range words {
		if t, err := smockron.ParseTime([]byte(word)); err == nil && !slices.Contains(s.times, t) {
			all = append(all, t)
			s.expires = max(s.expires, t+r.Burst.Milliseconds())
		}
	}
	for i := range s.times {
		all = append(all, s.times[(s.oldest+i)%len(s.times)])
	}
	s.times, s.oldest = all[max(0, len(all)-size):], 0
}

// Store saves the master's state of each identifier in Redis, so the state survives a restart. A record is a
// string under the key that the first master uses, throttle;<domain>;<identifier>, and expires when it no
// longer matters. Only one goroutine uses the Store, and no request waits for it.
type Store struct {
	option rueidis.ClientOption
	client rueidis.Client // nil: not connected yet
}

// OpenStore makes a Store for a URL: redis://[user:password@]host[:port][/database], rediss:// for TLS, or
// unix:///path. The Store connects on first use, and reconnects as needed.
func OpenStore(url string) (*Store, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	o.DisableCache = true
	o.ConnWriteTimeout = storeWait
	o.Dialer.Timeout = time.Second
	o.DisableRetry = true // the next exchange tries again
	o.ForceSingleClient = true
	return &Store{option: o}, nil
}

// connect makes the first connection. After that, the client reconnects automatically.
func (s *Store) connect() (err error) {
	if s.client == nil {
		if s.client, err = rueidis.NewClient(s.option); err != nil {
			s.client = nil
			return fmt.Errorf("redis: %w", err)
		}
	}
	return nil
}

// Close ends the connection.
func (s *Store) Close() {
	if s.client != nil {
		s.client.Close()
	}
}

const keyPrefix = "throttle;"

func storeKey(domain, identifier string) string { return keyPrefix + domain + ";" + identifier }

// globbed returns a Redis pattern that matches all keys with a prefix.
func globbed(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
}

// scanCount is how many keys Redis checks in one step.
const scanCount = 1000

// Load calls each with every record of a domain.
func (s *Store) Load(ctx context.Context, domain string, each func(Record)) error {
	if err := s.connect(); err != nil {
		return err
	}
	prefix := storeKey(domain, "")
	pattern := globbed(prefix)
	for cursor := uint64(0); ; {
		page, err := s.client.Do(ctx, s.client.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return fmt.Errorf("redis: scan: %w", err)
		}
		records := make([]Record, 0, len(page.Elements))
		for _, key := range page.Elements {
			if id, ok := strings.CutPrefix(key, prefix); ok {
				records = append(records, Record{Domain: domain, Identifier: id})
			}
		}
		if err := s.Fetch(ctx, records); err != nil {
			return err
		}
		for _, r := range records {
			each(r)
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// Fetch fills in the states of the records. The state of a record that isn't in the store stays empty.
func (s *Store) Fetch(ctx context.Context, records []Record) error {
	if err := s.connect(); err != nil {
		return err
	}
	commands := make(rueidis.Commands, 0, len(records))
	for _, r := range records {
		commands = append(commands, s.client.B().Get().Key(storeKey(r.Domain, r.Identifier)).Build())
	}
	for i, answer := range s.client.DoMulti(ctx, commands...) {
		text, err := answer.ToString()
		if err != nil && !rueidis.IsRedisNil(err) && !isWrongType(err) {
			return fmt.Errorf("redis: get: %w", err)
		}
		records[i].State = text
	}
	return nil
}

// Save stores the records until they expire.
func (s *Store) Save(ctx context.Context, records []Record) error {
	if err := s.connect(); err != nil {
		return err
	}
	now := time.Now()
	commands := make(rueidis.Commands, 0, len(records))
	for _, r := range records {
		if ttl := r.Expires.Sub(now); ttl > 0 {
			commands = append(commands, s.client.B().Set().Key(storeKey(r.Domain, r.Identifier)).Value(r.State).Px(ttl).Build())
		}
	}
	for _, answer := range s.client.DoMulti(ctx, commands...) {
		if err := answer.Error(); err != nil {
			return fmt.Errorf("redis: set: %w", err)
		}
	}
	return nil
}

// isWrongType reports whether a key isn't a string, which means that another program uses it.
func isWrongType(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && strings.HasPrefix(e.Error(), "WRONGTYPE")
}
