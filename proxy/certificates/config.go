package certificates

import (
	"crypto/tls"
	"errors"
	"slices"
	"time"
)

// ErrNone is of a handshake for which there is no certificate at all.
var ErrNone = errors.New("there is no certificate")

// Issuer has certificates that it gets by itself.
type Issuer interface {
	// Certificate is the one for the name that the client asks for, or that of a challenge; nil:
	// there is none.
	Certificate(hello *tls.ClientHelloInfo) *tls.Certificate
	// First is one for clients that ask for a name that none has; nil: there is none.
	First() *tls.Certificate
}

// ChallengeProtocol is what a certificate authority asks for to see a challenge (RFC 8737).
const ChallengeProtocol = "acme-tls/1"

// Config is how a server speaks TLS that shows the certificates of a Store, and those of an
// Issuer, unless that is nil. It stays the same whatever the Store reads, and with it the
// keys of session tickets, which crypto/tls replaces every day.
func (s *Store) Config(issuer Issuer) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", "http/1.0"},
		// A record of 16 KB is one call of the system, and twelve if it is cut for the sake of
		// the first byte. Web servers send them, too.
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

func (s *Store) choose(now time.Time, hello *tls.ClientHelloInfo, issuer Issuer) (*tls.Certificate, error) {
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
