package classify

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// StandingHeader is the response header by which a backend vouches for a client,
// for an hour: a number from 0.5 to 8 that multiplies its share, or "yes" for the
// configured one. No client is to see it.
const StandingHeader = "Tempomat-Standing"

// StandingConfig is what NewStanding needs.
type StandingConfig struct {
	Attested     float64        // what the backend's word is worth if it gives no number, and a trusted network
	Trusted      []netip.Prefix // networks whose clients need no other evidence
	ClientClass  string         // the class of addresses, the first one
	SessionClass string         // what the class of sessions is called
}

// Standing judges whether clients behave as a person's browser does, by what
// requests and answers show. All of it is soft: it decays, it is bounded, nobody
// is asked to prove anything, and for a request that need not wait it has no
// effect.
//
// It keeps nothing that can be read: clients and cookies are known by hashes
// with a secret key. Its methods may be called concurrently, the times that they
// are told may be a little out of order.
type Standing struct {
	config   atomic.Pointer[standingConfig]
	secret   [16]byte
	visitors visitors
	sessions sessions
	handed   handedOut
	lies     contradictions
	names    names
}

type standingConfig struct {
	StandingConfig
	trusted prefixSet
}

// NewStanding makes a Standing that has seen nobody. The secret is the key of
// all hashes.
func NewStanding(secret [16]byte, c StandingConfig) (*Standing, error) {
	s := &Standing{secret: secret}
	return s, s.Configure(c)
}

// Configure changes the configuration. What was seen stays.
func (s *Standing) Configure(c StandingConfig) error {
	trusted, err := newPrefixSet(c.Trusted)
	if err != nil {
		return err
	}
	s.config.Store(&standingConfig{c, trusted})
	return nil
}

// Judge says how a classified request's client stands, and makes its session a
// key of its own, the first one, if it brings back a cookie that the site gave
// to its network and that counts at its address.
func (s *Standing) Judge(now time.Time, r *http.Request, res *Result) {
	c, at := s.config.Load(), seconds(now)
	res.Standing, res.Evidence, res.Company, res.session, res.Address = 1, 0, 1, 0, ""
	res.Session, res.Face, res.Follows, res.part = false, 0, false, isPart(r)
	if len(res.Keys()) == 0 {
		return
	}
	res.Address = res.keys[0].ID
	res.address = s.hashOf(res.Address)
	res.visitor = res.address
	if lines := r.Header["Cookie"]; len(lines) > 0 {
		s.visitors.with(res.address, at, func(v *visitor) { res.Company = v.company(at) })
		s.judgeCookies(at, c, lines, res)
	}
	attested := c.Attested
	s.visitors.with(res.visitor, at, func(v *visitor) {
		e, told := v.evidence(at)
		res.Evidence |= e
		if e&Attested != 0 {
			attested = told
		}
		if res.visitor == res.address {
			res.Company = v.company(at)
		}
		res.Follows = res.part && v.follow(at)
	})
	if c.trusted.contains(res.Client) {
		res.Evidence |= Attested
		attested = max(attested, c.Attested)
	}
	if s.lies.has(at, r, res.TrustedPeer) {
		res.Evidence |= Contradiction
	}
	if res.forged && !c.trusted.contains(res.Client) { // there somebody may try out what robots are shown
		res.Evidence |= Forged
	}
	res.Standing = res.Evidence.standing(attested)
	if res.Session = res.keys[0].Class == c.SessionClass; res.Session {
		return
	}
	res.Face = s.face(r.Header["User-Agent"])
	if res.Evidence&(Cookie|Forged) == Cookie {
		res.Standing = max(res.Standing, res.Company)
	}
	res.Company = 1 // the second key is no address
}

// Answered takes in what the backend answered: the cookies that it gave, whether
// it was a page or a part of one, and what it says of the client, which it takes
// out of the header.
func (s *Standing) Answered(now time.Time, r *http.Request, res *Result, status int, h http.Header) {
	at := seconds(now)
	told := h[StandingHeader]
	StripStanding(h)
	if res.visitor == 0 {
		return
	}
	given := s.give(h["Set-Cookie"], res)
	page, weight := isPage(status, h), s.partWeight(at, r, res, status, h)
	if !page && weight == 0 && !given && len(told) == 0 {
		return
	}
	s.visitors.with(res.visitor, at, func(v *visitor) {
		if v.see(at); given {
			v.given++
		}
		switch {
		case page:
			v.page(at)
			e, _ := v.evidence(at)
			res.unread = e&Parts == 0
		case weight > 0:
			v.part(at, weight)
		}
		if x, ok := s.vouched(told); ok {
			v.attested, v.attestedUntil = float32(x), at+vouchedFor
		}
	})
}

// partWeight is how much an answer counts as that of a part; 0: it is none. What the
// client has still, by a tag that it was told, counts double: who keeps nothing cannot
// tell it. A date does not, which anybody may tell.
func (s *Standing) partWeight(at int64, r *http.Request, res *Result, status int, h http.Header) float32 {
	if !res.part || !(status == http.StatusOK && isPartType(h) || status == http.StatusNotModified) {
		return 0
	}
	if target, ok := s.hashOfTarget(r.URL); !ok || !s.names.may(at, target) {
		return 0
	}
	if status == http.StatusNotModified && hasTag(r) {
		return 2
	}
	return 1
}

// vouched is what the backend said.
func (s *Standing) vouched(told []string) (float64, bool) {
	if len(told) != 1 {
		return 0, false
	}
	if told[0] == "yes" {
		return s.config.Load().Attested, true
	}
	x, err := strconv.ParseFloat(told[0], 64)
	return x, err == nil && x >= leastStanding && x <= mostStanding
}

// StripStanding takes the backend's word out of an answer's header.
func StripStanding(h http.Header) { delete(h, StandingHeader) }

// hashOf is that of a client. Like all of them it is keyed, the same after a
// restart, and never 0.
func (s *Standing) hashOf(client string) uint64 {
	var buffer [128]byte
	return hashOf(append(s.key(buffer[:0], 'c'), client...))
}

// key begins the text that is hashed with the secret and the kind of the text.
func (s *Standing) key(dst []byte, kind byte) []byte {
	return append(append(dst, s.secret[:]...), kind)
}

// hashOf is the hash of a text that begins with the key.
func hashOf(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:]) | 1
}
