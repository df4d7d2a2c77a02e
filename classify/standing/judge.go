package standing

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tempomat/classify"
	"tempomat/limiter/known"
)

// Header is the response header by which a backend vouches for a client, for an hour: a number
// from 0.5 to 8 that multiplies its share, or "yes" for the configured one. It is removed
// before clients see it.
const Header = "Tempomat-Standing"

// Config is what New needs.
type Config struct {
	Attested     float64        // what the backend's word is worth if it gives no number, and a trusted network
	Trusted      []netip.Prefix // networks whose clients need no other evidence
	ClientClass  string         // the class of addresses, the first one
	SessionClass string         // what the class of sessions is called
}

// Judge judges whether clients behave as a person's browser does, by what requests and answers
// show. All of it is soft: it decays, it is bounded, no client must prove anything, and for a
// request that need not wait it has no effect.
//
// It keeps nothing that can be read: clients and cookies are known by hashes with a secret key.
// Its methods may be called concurrently; the times that they get may be a little out of order.
type Judge struct {
	config   atomic.Pointer[settings]
	exchange *known.Exchange // with other instances; nil: there are none
	secret   [16]byte
	visitors *visitors
	sessions sessions
	handed   handedOut
	lies     contradictions
}

type settings struct {
	Config
	trusted classify.PrefixSet
}

// New makes a Judge that has seen no clients. The secret is the key of all hashes.
func New(secret [16]byte, c Config) (*Judge, error) {
	j := &Judge{secret: secret, visitors: newVisitors(), sessions: newSessions(), handed: newHandedOut()}
	return j, j.Configure(c)
}

// Configure changes the configuration and keeps what was seen.
func (j *Judge) Configure(c Config) error {
	trusted, err := classify.NewPrefixSet(c.Trusted)
	if err != nil {
		return err
	}
	j.config.Store(&settings{c, trusted})
	return nil
}

// Share has other instances told of cookies and of how visitors stand, and this one learn that
// of them. All hashes are keyed with the secret then, which is theirs as well. It is called before
// the first request, and before UnmarshalBinary.
func (j *Judge) Share(x *known.Exchange, secret [16]byte) {
	j.exchange, j.secret = x, secret
	x.Receive(j.learn)
}

// The data of an Entry: for a visitor its evidence and its worth if the backend vouches for it,
// for a cookie what package standing remembers of it (handed).
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

// tellCookie shares with other instances that the site gave a cookie, and to which session.
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

// learn takes in what another instance tells. A cookie is one as if it had been given here.
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
	case known.OfClient: // the limiter's
	}
}

// Visit is what is known of a request from Assess to the last of its answer. The zero Visit
// belongs to no client: nothing of it is remembered. It is for one goroutine at a time.
type Visit struct {
	client  netip.Addr
	address uint64 // the hash of its address
	visitor uint64 // of the client's; 0: it is not judged
	session uint32 // 0: none
	part    bool   // it is for a part of a page
}

// Assess says how a classified request's client stands, and makes its session a
// key of its own, the first one, if it brings back a cookie that the site gave
// to its network and that counts at its address. It overwrites x.
func (j *Judge) Assess(now time.Time, r *http.Request, res *classify.Result, x *Visit) {
	c, at := j.config.Load(), seconds(now)
	*x = Visit{client: res.Client, part: isPart(r)}
	res.Standing, res.Evidence, res.ClientsBehind, res.Address = 1, 0, 1, ""
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
	if c.trusted.Contains(res.Client) {
		res.Evidence |= classify.Attested
		attested = max(attested, c.Attested)
	} else if res.Forged { // a person there may be trying out what robots see
		res.Evidence |= classify.Forged
	}
	if j.lies.has(at, r, res.TrustedPeer) {
		res.Evidence |= classify.Contradiction
	}
	res.Standing = worth(res.Evidence, attested)
	if res.Session = res.Keys()[0].Class == c.SessionClass; res.Session {
		return
	}
	res.Face = j.face(r.Header["User-Agent"])
	if res.Evidence&(classify.Cookie|classify.Forged) == classify.Cookie {
		res.Standing = max(res.Standing, res.ClientsBehind)
	}
	res.ClientsBehind = 1 // the second key is no address
}

// remembered adds the evidence of the client's visits, and returns its worth if the backend
// vouches for it.
func (j *Judge) remembered(at int64, c *settings, res *classify.Result, x *Visit) (attested float64) {
	attested = c.Attested
	j.visitors.with(x.visitor, at, func(v *visitor) {
		e, told := v.evidence(at)
		res.Evidence |= e
		if e&classify.Attested != 0 {
			attested = told
		}
		if x.visitor == x.address {
			res.ClientsBehind = v.company(at)
		}
		res.Follows = x.part && v.follow(at)
	})
	return attested
}

// Answer is the header of one; http.Header is.
type Answer interface {
	Get(name string) string
	Values(name string) []string
	Del(name string)
}

// Answered takes in what the backend answered: the cookies that it gave, whether
// it was a page or a part of one, and what it says of the client, which it takes
// out of the header.
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

// partWeight is how much an answer counts as a part; 0: it isn't one. A part that the client
// still has, by its entity tag, counts double: a client that keeps nothing does not have the
// tag. A date does not count double, because any client can guess one.
func (x *Visit) partWeight(r *http.Request, status int, h Answer) float32 {
	if !x.part || !(status == http.StatusOK && isPartType(h) || status == http.StatusNotModified) {
		return 0
	}
	if status == http.StatusNotModified && hasTag(r) {
		return 2
	}
	return 1
}

// vouched is what the backend said.
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

// hashOf is that of a client. Like all of them it is keyed, the same after a
// restart, and never 0.
func (j *Judge) hashOf(client string) uint64 {
	var buffer [128]byte
	return hashOf(append(j.key(buffer[:0], 'c'), client...))
}

// key begins the text that is hashed with the secret and the kind of the text.
func (j *Judge) key(dst []byte, kind byte) []byte {
	return append(append(dst, j.secret[:]...), kind)
}

// hashOf is the hash of a text that begins with the key.
func hashOf(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:]) | 1
}

// worth is the factor of a client's share: the product of the factors of its evidence. No
// evidence counts for a client that claims to be a robot that it isn't.
func worth(e classify.Evidence, attested float64) float64 {
	if e&classify.Forged != 0 {
		return classify.LeastStanding
	}
	x := 1.0
	for _, of := range []struct {
		kind  classify.Evidence
		times float64
	}{{classify.Cookie, 2}, {classify.Parts, 2}, {classify.Attested, attested}, {classify.Contradiction, 0.5}} {
		if e&of.kind != 0 {
			x *= of.times
		}
	}
	return max(classify.LeastStanding, min(x, classify.MostStanding))
}

// contradictions reports whether a request's headers are not those of the browser that its
// User-Agent names. It is evidence, not proof: proxies on the way change headers, and a program
// that knows the rule sends them. So it costs rank only, never an answer.
//
// Chrome since 76, all that are made of it, and Firefox since 90 send Sec-Fetch-Mode
// with every request over HTTPS, and few crawlers that borrow their names do. The lack
// of it is a contradiction by itself, where
//   - the client came over TLS, as our own listener or a trusted proxy says;
//   - the version is one that surely sends it: Chrome from 80, Firefox from 90. Tor Browser is
//     the Firefox that it names; older long-term versions (78, 68) name themselves, too;
//   - it doesn't just look like one of them: a robot that says so, an application's view
//     (Android's "; wv", Electron), relatives of Firefox that carry its number and not its code
//     (SeaMonkey, Pale Moon), browsers whose pages are fetched by a server (Opera Mini, Puffin,
//     UC Browser);
//   - it is an ordinary GET: WebSockets and downloads that are resumed have ways of
//     their own;
//   - such a header came through recently. A front that removes them all makes no client a
//     liar.
type contradictions struct {
	came atomic.Int64 // when Sec-Fetch-Mode last came over TLS, Unix seconds, within a minute
}

const (
	leastChrome  = 80
	leastFirefox = 90
	fetchSeen    = 3600 // seconds that one header tells that they come through
)

// has reports whether there is a contradiction. trusted is whether the peer is.
func (c *contradictions) has(now int64, r *http.Request, trusted bool) bool {
	lines := r.Header["User-Agent"]
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "Mozilla/5.0 (") || strings.Contains(lines[0], "compatible;") {
		return false // it does not say that it is a browser
	}
	return c.lacksFetchMode(now, r, lines[0], trusted)
}

// lacksFetchMode reports whether a request lacks the header that its browser sends.
func (c *contradictions) lacksFetchMode(now int64, r *http.Request, agent string, trusted bool) bool {
	if !classify.Secure(r, trusted) {
		return false
	}
	came := c.came.Load()
	if len(r.Header["Sec-Fetch-Mode"]) > 0 {
		if now-came >= 60 {
			c.came.Store(now)
		}
		return false
	}
	return now-came < fetchSeen && r.Method == http.MethodGet &&
		len(r.Header["Upgrade"]) == 0 && len(r.Header["Range"]) == 0 && sendsFetchMode(agent)
}

// sendsFetchMode reports whether a browser surely sends Sec-Fetch-Mode over TLS.
func sendsFetchMode(agent string) bool {
	agent = agent[:min(len(agent), longestAgent)]
	if versionOf(agent, " Chrome/") < leastChrome && versionOf(agent, " Firefox/") < leastFirefox {
		return false
	}
	for _, other := range [...]string{
		"; wv)", "Electron/", "SeaMonkey/", "PaleMoon/", "Goanna/", "Opera Mini/", "Puffin/", "UCBrowser/", "://", "bot",
	} {
		if strings.Contains(agent, other) {
			return false
		}
	}
	return classify.SaysBrowser(agent)
}

// versionOf is the number behind a product's name; 0: there is none.
func versionOf(agent, product string) (n int) {
	_, version, _ := strings.Cut(agent, product)
	for i := 0; i < len(version) && '0' <= version[i] && version[i] <= '9' && n < 1000; i++ {
		n = n*10 + int(version[i]-'0')
	}
	return n
}
