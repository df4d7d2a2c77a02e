package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

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
	on      bool                    // there is one
	unsaved map[*identifier]unsaved // those that the store does not have as they are
	dropped uint64
}

// unsaved is where an identifier belongs.
type unsaved struct {
	domain *domain
	name   string
	*identifier
}

// lives reports whether the identifier was not forgotten in the meantime.
func (u unsaved) lives() bool { return u.domain.identifiers[u.name] == u.identifier }

// note marks an identifier as changed.
func (s *saver) note(d *domain, name []byte, x *identifier) {
	if _, marked := s.unsaved[x]; s.on && !marked {
		s.mark(unsaved{d, string(name), x})
	}
}

func (s *saver) mark(u unsaved) {
	if len(s.unsaved) >= maxUnsaved {
		s.dropped++
		return
	}
	s.unsaved[u.identifier] = u
}

// forget drops what is of domains that are gone.
func (s *saver) forget(domains map[string]*domain) {
	maps.DeleteFunc(s.unsaved, func(_ *identifier, u unsaved) bool { return domains[u.domain.Name] != u.domain || !u.lives() })
}

// restore takes in all that the store knows, and returns the orders that follow
// from it: gatekeepers that asked before hear of them so.
func (m *Master) restore(ctx context.Context, s Store, now func() time.Time) (news []Order, err error) {
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

// saveAtOnce is how many identifiers go to the store together.
const saveAtOnce = 5_000

// save brings the store up to date, and returns the orders that follow from what another master
// left there. Changes that could not be saved are saved later.
func (m *Master) save(ctx context.Context, s Store, now func() time.Time) (news []Order, err error) {
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
	for x, u := range m.saver.unsaved {
		if len(batch) == saveAtOnce {
			break
		}
		batch = append(batch, u)
		delete(m.saver.unsaved, x)
	}
	return batch
}

func (m *Master) saveBatch(ctx context.Context, s Store, now func() time.Time, batch []unsaved) (news []Order, err error) {
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
		if !u.lives() {
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
	for _, u := range batch {
		if _, marked := m.saver.unsaved[u.identifier]; !marked {
			m.saver.mark(u)
		}
	}
	m.saver.forget(m.domains)
}

// What the states of an identifier's rules look like in a store: one after the other with a bar
// between, in decimal. For a single bucket rule it is the number that the first master keeps,
// so either can continue where the other stopped.

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

// mergeStates takes in what a store knows of an identifier, as far as it is
// readable and says more than the states do: merging the same again, or in another
// order, changes nothing.
func mergeStates(text string, rules []Rule, states []state, now int64) {
	parts := strings.Split(text, between)
	if len(parts) != len(rules) {
		return // other rules wrote it
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

// mergeHistory puts the times that the store knows before those of this life. It
// is for the first look at an identifier.
func (s *state) mergeHistory(words []string, r *Rule) {
	size := r.requests()
	var all []int64
	for _, word := range words {
		if t, err := smockron.ParseTime([]byte(word)); err == nil && !s.has(t) {
			all = append(all, t)
			s.expires = max(s.expires, t+r.Burst.Milliseconds())
		}
	}
	for i := range s.times {
		all = append(all, s.times[(s.oldest+i)%len(s.times)])
	}
	s.times, s.oldest = all[max(0, len(all)-size):], 0
}

func (s *state) has(t int64) bool {
	return slices.Contains(s.times, t)
}

// RedisStore is a Store in Redis. A record is a string under the key that the
// first master uses, throttle;<domain>;<identifier>, and expires with its meaning.
type RedisStore struct {
	option rueidis.ClientOption
	client rueidis.Client // nil: not connected yet
}

// OpenRedisStore makes a RedisStore of a URL: redis://[user:password@]host[:port][/database],
// rediss:// for TLS, unix:///path. It connects when it is first used, and again
// when it has to.
func OpenRedisStore(url string) (*RedisStore, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	o.DisableCache = true
	o.ConnWriteTimeout = storeWait
	o.Dialer.Timeout = time.Second
	o.DisableRetry = true // the next exchange is the retry
	o.ForceSingleClient = true
	return &RedisStore{option: o}, nil
}

// connect makes the first connection; the client keeps it.
func (s *RedisStore) connect() (err error) {
	if s.client == nil {
		if s.client, err = rueidis.NewClient(s.option); err != nil {
			s.client = nil
			return fmt.Errorf("redis: %w", err)
		}
	}
	return nil
}

// Close ends the connection.
func (s *RedisStore) Close() {
	if s.client != nil {
		s.client.Close()
	}
}

const keyPrefix = "throttle;"

func storeKey(domain, identifier string) string { return keyPrefix + domain + ";" + identifier }

// globbed is a pattern of Redis for the keys that begin with the prefix.
func globbed(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
}

// scanCount is how many keys Redis looks at in one step.
const scanCount = 1000

// Load implements Store.
func (s *RedisStore) Load(ctx context.Context, domain string, each func(Record)) error {
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

// Fetch implements Store.
func (s *RedisStore) Fetch(ctx context.Context, records []Record) error {
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

// Save implements Store.
func (s *RedisStore) Save(ctx context.Context, records []Record) error {
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

// isWrongType reports whether a key is not a string: not one of ours.
func isWrongType(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && strings.HasPrefix(e.Error(), "WRONGTYPE")
}
