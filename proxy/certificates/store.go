package certificates

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Store holds the certificates of a server. Its methods may be called concurrently.
type Store struct {
	log   *zap.Logger
	index atomic.Pointer[index]

	mu      sync.Mutex // guards the fields below
	sources []Source
	found   map[Source][]files // pairs of each source, as last listed
	pairs   []pair
	said    string // last logged error of the sources
}

// index finds certificates by name.
type index struct {
	first  *tls.Certificate // certificate for clients that ask for no known name; nil: none
	byName map[string][]*tls.Certificate
}

// New makes a Store without certificates.
func New(log *zap.Logger) *Store {
	s := &Store{log: log}
	s.index.Store(&index{})
	return s
}

// Certificate returns the first usable certificate for the name that the client asks for, which may match
// exactly or by a wildcard. A certificate is usable if the client supports it and it hasn't expired. If there
// is none, valid is false, and c is the first certificate for the name; nil: none.
func (s *Store) Certificate(now time.Time, hello *tls.ClientHelloInfo) (c *tls.Certificate, valid bool) {
	x := s.index.Load()
	name := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	exact, valid := best(now, x.byName[name], hello)
	if valid {
		return exact, true
	}
	_, parent, _ := strings.Cut(name, ".")
	wildcard, valid := best(now, x.byName["*."+parent], hello)
	if valid {
		return wildcard, true
	}
	return cmp.Or(exact, wildcard), false
}

// First returns the first certificate, for clients that ask for no name or for a name without a certificate;
// nil: the Store has none.
func (s *Store) First() *tls.Certificate { return s.index.Load().first }

// best returns the first certificate that the client can use and that has not expired. If there is none, valid
// is false, and c is the first certificate of all.
func best(now time.Time, all []*tls.Certificate, hello *tls.ClientHelloInfo) (c *tls.Certificate, valid bool) {
	for _, c := range all {
		if (len(all) == 1 || hello.SupportsCertificate(c) == nil) && now.Before(c.Leaf.NotAfter) {
			return c, true
		}
	}
	if len(all) > 0 {
		return all[0], false
	}
	return nil, false
}

// ErrUnusable is part of the error of Load if none of the sources' certificates can be used.
var ErrUnusable = errors.New("no certificate can be used")

// Load reads the certificates of sources, which replace the previous sources. If a pair was read before and
// can't be read now, its certificate stays in use. The error lists the pairs that have never been read, and the
// caller must log it. The other pairs are in use. If no pair can be used, the previous certificates stay.
func (s *Store) Load(sources []Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, found, pairs, said, index := s.sources, s.found, s.pairs, s.said, s.index.Load()
	s.sources = sources
	err := s.read()
	s.said = fmt.Sprint(err)
	if err == nil || s.First() != nil {
		return err
	}
	if index.first != nil {
		s.sources, s.found, s.pairs, s.said = before, found, pairs, said
		s.index.Store(index)
	}
	return errors.Join(ErrUnusable, err)
}

// read reads all sources. s.mu is held.
func (s *Store) read() (err error) {
	known := make(map[files]pair, len(s.pairs))
	for _, p := range s.pairs {
		known[p.files] = p
	}
	var pairs []pair
	all, taken := make(map[Source][]files), make(map[files]bool)
	for _, source := range s.sources {
		found, e := source.find()
		if e != nil { // while a source can't be completely listed, its pairs stay
			earlier := s.found[source]
			isKnown := func(f files) bool { return slices.Contains(earlier, f) }
			found = append(slices.Clip(earlier), slices.DeleteFunc(found, isKnown)...)
		}
		all[source], err = found, errors.Join(err, e)
		// If a pair has disappeared, it stays until the next call, because a program may be replacing it.
		for i, f := range append(slices.Clip(found), s.found[source]...) {
			if taken[f] || i >= len(found) && known[f].shown == nil {
				continue
			}
			taken[f] = true
			before := known[f]
			before.files = f
			p, changed, e := before.reread()
			if changed {
				s.tell(before, p, e)
			}
			if p.shown == nil {
				err = errors.Join(err, e)
			}
			pairs = append(pairs, p)
		}
	}
	s.found, s.pairs = all, pairs
	s.index.Store(newIndex(pairs))
	return err
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

// every is how often the files are read again. They are polled because watching doesn't work on every file
// system, or through links.
const every = 10 * time.Second

// Run calls Look regularly until the context ends.
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

// Look reads the files that have changed.
func (s *Store) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.read()
	if err != nil && err.Error() != s.said {
		s.log.Error("certificates can't be read", zap.Error(err))
	}
	s.said = fmt.Sprint(err)
}

// tell logs whether a pair could be read.
func (s *Store) tell(before, p pair, err error) {
	fields := []zap.Field{zap.String("certificate", p.certificate), zap.String("key", p.key)}
	switch {
	case err == nil:
		s.log.Info("certificate is in use", append(fields, zap.Strings("names", firstOf(p.names)), zap.Time("expires", p.shown.Leaf.NotAfter))...)
		if p.public {
			s.log.Warn("every user of this machine can read a private key: run chmod o-r on it", zap.String("key", p.key))
		}
	case before.fault == p.fault:
	case p.shown != nil:
		s.log.Error("a new certificate can't be used; the previous one stays in use", append(fields, zap.Error(err), zap.Time("expires", p.shown.Leaf.NotAfter))...)
	default:
		s.log.Error("a certificate can't be used", append(fields, zap.Error(err))...)
	}
}

// firstOf returns as many names as fit in a log line.
func firstOf(names []string) []string { return names[:min(len(names), 10)] }

// State is a certificate in the Store.
type State struct {
	Certificate string    `json:"certificate"` // the file
	Names       []string  `json:"names"`
	Expires     time.Time `json:"expires"`         // when the certificate expires; zero: it was never read
	Fault       string    `json:"fault,omitempty"` // why the current content of the file can't be used
}

// States returns all certificates, in their order.
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

// ErrNone is the error of a handshake for which there is no certificate.
var ErrNone = errors.New("there is no certificate")

// ChallengeProtocol is the protocol with which a certificate authority checks a challenge (RFC 8737).
const ChallengeProtocol = "acme-tls/1"

// Config returns the TLS configuration of a server with the certificates of the Store, and of an Issuer unless
// it is nil. The configuration stays valid when the Store reads other certificates. The keys of session
// tickets, which crypto/tls replaces every day, stay as well.
func (s *Store) Config(issuer *Issuer) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", "http/1.0"},
		// With small records, the client would get the first byte sooner, but 16 KB would take twelve system
		// calls instead of one.
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
	c, valid := s.Certificate(now, hello)
	switch {
	case issuer != nil && slices.Contains(hello.SupportedProtos, ChallengeProtocol):
		c = issuer.Certificate(hello)
	case issuer == nil || valid:
		c = cmp.Or(c, s.First())
	default:
		c = cmp.Or(issuer.Certificate(hello), c, s.First(), issuer.First())
	}
	if c == nil {
		return nil, ErrNone
	}
	return c, nil
}
