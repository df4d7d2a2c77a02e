package certificates

import (
	"context"
	"crypto/tls"
	"errors"
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
	said    string // what was logged last of sources that cannot be read
}

// index finds certificates by name.
type index struct {
	first  *tls.Certificate // nil: there is none
	byName map[string][]*tls.Certificate
}

// New makes a Store without certificates.
func New(log *zap.Logger) *Store {
	s := &Store{log: log}
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

// best is the first that a client can use and that has not expired; otherwise the first.
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
func (s *Store) Load(sources []Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, pairs, index := s.sources, s.pairs, s.index.Load()
	s.sources = sources
	err := s.read()
	if err != nil && s.First() == nil && index.first != nil {
		s.sources, s.pairs = before, pairs
		s.index.Store(index)
	}
	return err
}

// read is Load for the sources of before.
func (s *Store) read() (err error) {
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
			taken[f] = true
			p, e := s.readAgain(known[f], f)
			err = errors.Join(err, e)
			pairs = append(pairs, p)
		}
	}
	s.pairs = pairs
	s.index.Store(newIndex(pairs))
	return err
}

// readAgain reads a pair. known is what it was before; nil: it was not there.
func (s *Store) readAgain(known *pair, f files) (pair, error) {
	before := pair{files: f}
	if known != nil {
		before = *known
	}
	p, read, err := before.reread()
	if read {
		s.tell(before, p, err)
	}
	if p.shown != nil {
		err = nil // that of before stays
	}
	return p, err
}

// missing are the pairs that a directory had and no longer has. They stay until they are
// missing twice, because they may be being replaced, or as long as the directory can't be read.
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

// every is how often it is looked whether files have changed. It takes a call of the
// system for each, and works on every file system and through links, which watching them
// does not.
const every = 10 * time.Second

// Run looks for changes until the context ends.
func (s *Store) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.Look()
		}
	}
}

// Look reads what has changed since.
func (s *Store) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.read()
	if err != nil && err.Error() != s.said {
		s.log.Error("certificates cannot be read", zap.Error(err))
	}
	if s.said = ""; err != nil {
		s.said = err.Error()
	}
}

// tell logs that a pair was read, or could not be.
func (s *Store) tell(before, p pair, err error) {
	fields := []zap.Field{zap.String("certificate", p.certificate), zap.String("key", p.key)}
	switch {
	case err == nil:
		s.log.Info("certificate is in force", append(fields, zap.Strings("names", firstOf(p.names)), zap.Time("expires", p.shown.Leaf.NotAfter))...)
		if p.public {
			s.log.Warn("every user of this machine can read a private key: run chmod o-r on it", zap.String("key", p.key))
		}
	case before.fault == p.fault:
	case p.shown != nil:
		s.log.Error("a new certificate cannot be used; the one before stays", append(fields, zap.Error(err), zap.Time("expires", p.shown.Leaf.NotAfter))...)
	default:
		s.log.Error("a certificate cannot be used", append(fields, zap.Error(err))...)
	}
}

// firstOf are as many names as a line has room for.
func firstOf(names []string) []string { return names[:min(len(names), 10)] }

// State is a certificate in the Store.
type State struct {
	Certificate string    `json:"certificate"` // the file
	Names       []string  `json:"names"`
	Expires     time.Time `json:"expires"`         // zero: it was never read
	Fault       string    `json:"fault,omitempty"` // of what the file has now
}

// States are all certificates, in their order.
func (s *Store) States() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]State, 0, len(s.pairs))
	for _, p := range s.pairs {
		state := State{Certificate: p.certificate, Names: slices.Clone(p.names), Fault: p.fault}
		if p.shown != nil {
			state.Expires = p.shown.Leaf.NotAfter
		}
		all = append(all, state)
	}
	return all
}

// ErrNone is the error of a handshake without any certificate.
var ErrNone = errors.New("there is no certificate")

// ChallengeProtocol is what a certificate authority asks for to see a challenge (RFC 8737).
const ChallengeProtocol = "acme-tls/1"

// Config is how a server speaks TLS that shows the certificates of a Store, and those of an
// Issuer, unless that is nil. It stays the same whatever the Store reads, and with it the
// keys of session tickets, which crypto/tls replaces every day.
func (s *Store) Config(issuer *Issuer) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", "http/1.0"},
		// A record of 16 KB is one call of the system, and twelve if it is cut for the sake of
		// the first byte. Web servers send them as well.
		DynamicRecordSizingDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.choose(time.Now(), hello, issuer)
		},
	}
	if issuer != nil {
		c.NextProtos = append(c.NextProtos, ChallengeProtocol)
	}
	return c
}

func (s *Store) choose(now time.Time, hello *tls.ClientHelloInfo, issuer *Issuer) (*tls.Certificate, error) {
	if issuer != nil && slices.Contains(hello.SupportedProtos, ChallengeProtocol) {
		if c := issuer.Certificate(hello); c != nil {
			return c, nil
		}
		return nil, ErrNone
	}
	c, found := s.Certificate(now, hello)
	if !found && issuer != nil {
		if c = issuer.Certificate(hello); c == nil {
			c = s.First()
		}
		if c == nil {
			c = issuer.First()
		}
	} else if !found {
		c = s.First()
	}
	if c == nil {
		return nil, ErrNone
	}
	return c, nil
}
