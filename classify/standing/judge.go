package standing

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"tempomat/classify"
	"tempomat/limiter/known"
)

// Header is the response header with which a backend vouches for a client for an hour. Its value is the factor
// of the client's share, from 0.5 to 8, or "yes" for the configured factor. It is removed before the response
// is sent to the client.
const Header = "Tempomat-Standing"

// Config is the configuration of a Judge.
type Config struct {
	Attested     float64        // the factor for trusted networks, and if the backend says "yes"
	Trusted      []netip.Prefix // networks whose clients count as attested
	ClientClass  string         // the name of the first class, which groups by address
	SessionClass string         // the name of the class of sessions
}

// Judge estimates, from requests and answers, whether clients behave like a person's browser. Its estimate fades
// with time, has limits, and matters only when requests have to wait.
//
// It stores clients and cookies only as keyed hashes. Its methods may be called concurrently, with times that
// are slightly out of order.
type Judge struct {
	config   atomic.Pointer[settings]
	exchange *known.Exchange // shares evidence with other instances; nil: nothing is shared
	secret   [16]byte
	visitors *visitors
	sessions sessions
	handed   handedOut
}

type settings struct {
	Config
	trusted classify.PrefixSet
}

// New makes a Judge that knows no clients. All hashes are keyed with the secret.
func New(secret [16]byte, c Config) *Judge {
	j := &Judge{secret: secret, visitors: newVisitors(), sessions: newSessions(), handed: newHandedOut()}
	j.Configure(c)
	return j
}

// Configure replaces the configuration. The Judge keeps its knowledge about clients.
func (j *Judge) Configure(c Config) {
	j.config.Store(&settings{c, classify.NewPrefixSet(c.Trusted)})
}

// Share starts to exchange cookies and evidence about visitors with other instances. All instances must use
// the same secret, which is the key of their hashes. Call it before the first request and before
// UnmarshalBinary.
func (j *Judge) Share(x *known.Exchange, secret [16]byte) {
	j.exchange, j.secret = x, secret
	x.Receive(j.learn)
}

// shared is the evidence that instances exchange. An Entry's Data contains either a visitor's evidence, with the
// factor if the backend vouches for the visitor, or the fields of a cookie that the site has set.
const shared = classify.Cookie | classify.Parts | classify.Attested

// tellVisitor shares a visitor's evidence with other instances.
func (j *Judge) tellVisitor(at int64, hash uint64, e classify.Evidence, attested float64) {
	if e &= shared; e == 0 || j.exchange == nil {
		return
	}
	told := known.Entry{Kind: known.OfVisitor, Hash: hash, At: at}
	told.Data[0] = byte(e)
	binary.LittleEndian.PutUint32(told.Data[4:], math.Float32bits(float32(attested)))
	j.exchange.Tell(told)
}

// tellCookie informs other instances that the site set a cookie for a session.
func (j *Judge) tellCookie(at int64, value uint64, session uint32, x *Visit) {
	if j.exchange == nil {
		return
	}
	told := known.Entry{Kind: known.OfCookie, Hash: value, At: at}
	binary.LittleEndian.PutUint32(told.Data[:], session)
	binary.LittleEndian.PutUint32(told.Data[4:], j.hashOfNetwork(x.client))
	binary.LittleEndian.PutUint32(told.Data[8:], uint32(x.address>>32))
	j.exchange.Tell(told)
}

// learn stores what another instance reported. Cookies set there count as if they had been set here.
func (j *Judge) learn(now time.Time, e known.Entry) {
	le := binary.LittleEndian
	switch e.Kind {
	case known.OfVisitor:
		attested := math.Float32frombits(le.Uint32(e.Data[4:]))
		if !(attested >= classify.LeastStanding && attested <= classify.MostStanding) {
			attested = 1
		}
		j.visitors.with(e.Hash|1, seconds(now), func(v *visitor) {
			v.told, v.toldWorth = classify.Evidence(e.Data[0])&shared, attested
			v.toldUntil = e.At + int64(known.Counts/time.Second)
		})
	case known.OfCookie:
		if !j.sessions.has(e.Hash | 1) {
			j.handed.put(handed{value: e.Hash | 1, id: le.Uint32(e.Data[:]) | 1, network: le.Uint32(e.Data[4:]), to: le.Uint32(e.Data[8:])})
		}
	case known.OfClient: // for the limiter
	}
}

// Trusts reports whether an address is in one of the trusted networks.
func (j *Judge) Trusts(client netip.Addr) bool { return j.config.Load().trusted.Contains(client) }

// Visit holds the data that Judge keeps about a request from Assess until the answer has ended. The zero Visit
// belongs to no client. Only one goroutine at a time may use a Visit.
type Visit struct {
	client  netip.Addr
	address uint64 // the hash of the client's address
	visitor uint64 // the hash of the client's session or address; 0: the client isn't judged
	session uint32 // the session's id; 0: none
	part    bool   // the request is for a part of a page
}

// Assess judges the client of a classified request and overwrites x. If the client sends back a cookie that
// the site set for its network, and the cookie's session counts at its address, the session becomes the first
// key.
func (j *Judge) Assess(now time.Time, r *http.Request, res *classify.Result, x *Visit) {
	c, at := j.config.Load(), seconds(now)
	*x = Visit{client: res.Client, part: isPart(r)}
	res.Standing, res.Evidence, res.ClientsBehind, res.Person, res.Address = 1, 0, 1, 0, ""
	res.Session, res.Face, res.Follows = false, 0, false
	if len(res.Keys()) == 0 {
		return
	}
	res.Address = res.Keys()[0].ID
	x.address = j.hashOf(res.Address)
	x.visitor = x.address
	if lines := r.Header["Cookie"]; len(lines) > 0 {
		j.visitors.with(x.address, at, func(v *visitor) { res.ClientsBehind = v.company(at) })
		j.judgeCookies(at, c, lines, res, x)
	}
	attested := j.remembered(at, c, res, x)
	if res.Own || c.trusted.Contains(res.Client) { // a visitor's page may wait for an own call, and holds a worker until then
		res.Evidence |= classify.Attested
		attested = max(attested, c.Attested)
	} else if res.Forged { // in a trusted network, a person may be testing what robots see
		res.Evidence |= classify.Forged
	}
	res.Standing = worth(res.Evidence, attested)
	if res.Session = res.Keys()[0].Class == c.SessionClass; res.Session {
		return
	}
	res.Face = j.face(r.Header["User-Agent"])
	res.ClientsBehind = 1 // without a session, the second key isn't an address
}

// remembered adds the evidence of earlier visits. It returns the factor to use if the backend vouches for the
// client.
func (j *Judge) remembered(at int64, c *settings, res *classify.Result, x *Visit) (attested float64) {
	attested = c.Attested
	j.visitors.with(x.visitor, at, func(v *visitor) {
		e, told := v.evidence(at)
		res.Evidence |= e
		if e&classify.Attested != 0 {
			attested = told
		}
		res.Person = float64(v.partOfAPerson(at))
		res.Follows = x.part && v.follow(at)
	})
	return attested
}

// Answer is the header of an answer. http.Header implements it.
type Answer interface {
	Get(name string) string
	Values(name string) []string
	Del(name string)
}

// Answered learns from a backend's answer which cookies it sets, whether it is a page or a part of one, and
// whether the backend vouches for the client. It removes Header from h.
func (j *Judge) Answered(now time.Time, r *http.Request, x *Visit, status int, h Answer) {
	at := seconds(now)
	told := h.Values(Header)
	h.Del(Header)
	if x.visitor == 0 {
		return
	}
	given := j.give(at, h.Values("Set-Cookie"), x)
	page, weight := isPage(status, h), x.partWeight(r, status, h)
	if !page && weight == 0 && !given && len(told) == 0 {
		return
	}
	var shown classify.Evidence
	var worth float64
	j.visitors.with(x.visitor, at, func(v *visitor) {
		if v.see(at); given {
			v.given++
		}
		switch {
		case page:
			v.page(at, x.part)
		case weight > 0:
			v.part(at, weight)
		}
		if worth, ok := j.vouched(told); ok {
			v.attested, v.attestedUntil = float32(worth), at+vouchedFor
		}
		shown, worth = v.shown(at)
	})
	j.tellVisitor(at, x.visitor, shown, worth)
}

// partWeight returns how much an answer counts as a part, or 0 if it isn't one. If the client sent the entity
// tag of a part that is still current, the part counts double, because a client that keeps nothing doesn't
// know the tag. A date doesn't count double, because any client can guess one.
func (x *Visit) partWeight(r *http.Request, status int, h Answer) float32 {
	if !x.part || !(status == http.StatusOK && isPartType(h) || status == http.StatusNotModified) {
		return 0
	}
	if status == http.StatusNotModified && hasTag(r) {
		return 2
	}
	return 1
}

// vouched reads the value of Header.
func (j *Judge) vouched(told []string) (float64, bool) {
	if len(told) != 1 {
		return 0, false
	}
	if told[0] == "yes" {
		return j.config.Load().Attested, true
	}
	x, err := strconv.ParseFloat(told[0], 64)
	return x, err == nil && x >= classify.LeastStanding && x <= classify.MostStanding
}

// hashOf returns the hash of a client. All hashes are keyed, stay the same after a restart, and are never 0.
func (j *Judge) hashOf(client string) uint64 {
	var buffer [128]byte
	return hashOf(append(j.key(buffer[:0], 'c'), client...))
}

// key appends the secret and the kind of a text, with which each text to be hashed begins.
func (j *Judge) key(dst []byte, kind byte) []byte {
	return append(append(dst, j.secret[:]...), kind)
}

// hashOf returns the hash of a text that begins with the key.
func hashOf(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:]) | 1
}

// worth returns the factor of a client's share: the product of the factors of its evidence. A client that
// falsely claims to be a robot gets the smallest factor, whatever its evidence.
func worth(e classify.Evidence, attested float64) float64 {
	if e&classify.Forged != 0 {
		return classify.LeastStanding
	}
	x := 1.0
	for _, of := range []struct {
		kind  classify.Evidence
		times float64
	}{{classify.Cookie, 2}, {classify.Parts, 2}, {classify.Attested, attested}} {
		if e&of.kind != 0 {
			x *= of.times
		}
	}
	return max(classify.LeastStanding, min(x, classify.MostStanding))
}
