package certificates

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Store is the certificates of a server. Its methods may be called concurrently.
type Store struct {
	log   *zap.Logger
	index atomic.Pointer[index]

	mu      sync.Mutex // guards the following
	sources []Source
	pairs   []pair
	said    map[string]time.Time // what was logged of a file, and when
}

// index finds certificates by name.
type index struct {
	first  *tls.Certificate // nil: there is none
	byName map[string][]*tls.Certificate
}

// New makes a Store without certificates.
func New(log *zap.Logger) *Store {
	s := &Store{log: log, said: make(map[string]time.Time)}
	s.index.Store(&index{})
	return s
}

// Certificate is the one that a client is shown: of those that have the name that it asks for,
// of itself or by a wildcard, the first that it can use and that has not expired. Without a name
// it is one for the address that it came to. Not found: none has the name.
func (s *Store) Certificate(now time.Time, hello *tls.ClientHelloInfo) (c *tls.Certificate, found bool) {
	x := s.index.Load()
	name := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	if name == "" {
		name = localAddress(hello.Conn)
	}
	if c = best(now, x.byName[name], hello); c != nil {
		return c, true
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		c = best(now, x.byName["*."+parent], hello)
	}
	return c, c != nil
}

// First is the first certificate, for clients that ask for a name that none has; nil: there is
// none at all.
func (s *Store) First() *tls.Certificate { return s.index.Load().first }

// best is the first that a client can use and that has not expired, or else the first.
func best(now time.Time, all []*tls.Certificate, hello *tls.ClientHelloInfo) *tls.Certificate {
	for _, c := range all {
		if (len(all) == 1 || hello.SupportsCertificate(c) == nil) && now.Before(c.Leaf.NotAfter) {
			return c
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

func localAddress(c net.Conn) string {
	if c == nil {
		return ""
	}
	if tcp, ok := c.LocalAddr().(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return ""
}

// Load reads the certificates of sources, which replace those before. Of a pair that cannot be
// read now and was read before, that stays. The error says which can be read neither now nor
// before; the others are in force. If there would be none at all, those before stay.
func (s *Store) Load(sources []Source, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, pairs, index := s.sources, s.pairs, s.index.Load()
	s.sources = sources
	err := s.read(now)
	if err != nil && s.First() == nil && index.first != nil {
		s.sources, s.pairs = before, pairs
		s.index.Store(index)
	}
	return err
}

// read is Load for the sources of before.
func (s *Store) read(now time.Time) (err error) {
	known := make(map[files]*pair, len(s.pairs))
	for i := range s.pairs {
		known[s.pairs[i].files] = &s.pairs[i]
	}
	var pairs []pair
	taken := make(map[files]bool)
	for _, source := range s.sources {
		found, e := source.find()
		err = errors.Join(err, e)
		for _, f := range append(found, s.missing(source.Path, found, e == nil)...) {
			if taken[f] {
				continue
			}
			if len(pairs) == mostPairs {
				return errors.Join(err, fmt.Errorf("there are more than %d certificates", mostPairs))
			}
			taken[f] = true
			p, e := s.take(now, known[f], f)
			err = errors.Join(err, e)
			pairs = append(pairs, p)
		}
	}
	s.pairs = pairs
	s.index.Store(newIndex(pairs))
	return err
}

// take reads a pair. known is what it was before; nil: it was not there.
func (s *Store) take(now time.Time, known *pair, f files) (pair, error) {
	before := pair{files: f}
	if known != nil {
		before = *known
	}
	p, read, err := before.reread()
	if read {
		s.tell(before, p, err)
	}
	s.warn(now, p)
	if p.shown != nil {
		err = nil // that of before stays
	}
	return p, err
}

// missing are the pairs that a directory had and has no more. They stay until they are missing
// twice, as somebody may replace them at this moment, or as long as it cannot be read.
func (s *Store) missing(dir string, found []files, readable bool) (missing []files) {
	if dir == "" {
		return nil
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		switch {
		case !strings.HasPrefix(p.certificate, strings.TrimSuffix(dir, "/")+"/"):
		case slices.Contains(found, p.files):
			p.missing = false
		case !readable || !p.missing:
			p.missing = readable
			missing = append(missing, p.files)
		}
	}
	return missing
}

func newIndex(pairs []pair) *index {
	x := &index{byName: make(map[string][]*tls.Certificate)}
	for _, p := range pairs {
		if p.shown == nil {
			continue
		}
		if x.first == nil {
			x.first = p.shown
		}
		for _, n := range p.names {
			x.byName[n] = append(x.byName[n], p.shown)
		}
	}
	return x
}
