package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tempomat/classify/newcomer"
	"tempomat/proxy/lifecycle"
)

// Page is something that a client asks for.
type Page struct {
	Path  string
	Part  float64 // of the client's requests; of the last page, all that is left
	CPU   float64 // seconds, mostly: half to one and a half times as much
	Sleep float64 // seconds that a worker waits in the meantime, for a database say
	Exact bool    // always costs the same
	Query string  // of its URL; a number follows that no other request has

	Upload  float64 // bytes of the request's body
	Chunked bool    // nobody is told how many they are, so that the proxy passes them on as they come
	Answer  float64 // bytes of the answer
	Stream  float64 // seconds that the answer goes on, an event each second
}

// eventEach is how often a stream has an event, in seconds.
const eventEach = 1.0

// Client is one source of requests. It asks in a closed loop on Parallel
// connections, or, with a Rate, whether it is answered or not. It asks again
// when it has read its answer, or left.
type Client struct {
	Kind     string // people are "human", "nat" and "admin"
	Address  uint32 // IPv4
	Host     string // whom it asks; empty: the only site, or that of the others
	Agent    string
	Parallel int     // at least 1
	Rate     float64 // requests per second; 0: a closed loop
	Fresh    bool    // a new address for each request
	Roams    bool    // another address of its /24 for each request
	Think    float64 // mean seconds between an answer and the next request
	Pages    []Page
	Browser  bool    // it loads the parts of its pages and brings cookies back
	Attested bool    // the site vouches for it
	Timeout  float64 // seconds until it gives up
	Retry    float64 // seconds that it waits after a failure, at least
	Speed    float64 // bytes per second that it sends and reads; 0: any number
	HangsUp  float64 // seconds after which it leaves, answered or not; 0: never
	From, To float64 // seconds; To 0: the end
	Once     bool    // it asks for one page, and its parts
	Types    int     // so many keystrokes a page: each asks, and gives up what the one before asked for
	// Parts are what a browser loads after a page; none: those of the site. It does so on so many
	// connections; 0: one.
	Parts       []Page
	Connections int
	// Follows is after how many seconds it follows a redirect, with the cookie that
	// came with it, which it keeps; 0: it never does.
	Follows float64

	site   *site
	random *rand.Rand // its own, so that it thinks for as long whatever others do; nil: the world's
	cookie string     // the site's
	pass   string     // a newcomer's
	roamed uint32
}

// site is what all clients' pages have in common.
type site struct {
	cookies bool // it gives a session's cookie to who has none
	parts   bool // its pages have two parts, files of 0.2 ms
}

// fileCost is that of a part of a page, in CPU-seconds.
const fileCost = 0.0002

func part() Page { return Page{Path: "/theme.css", CPU: fileCost, Exact: true} }

// Part tells parts of pages from pages.
func (c *Client) Part(path string) bool { return strings.HasSuffix(path, ".css") }

// pick chooses a page.
func (c *Client) pick() Page {
	x := c.random.Float64()
	for _, p := range c.Pages[:len(c.Pages)-1] {
		if x < p.Part {
			return p
		}
		x -= p.Part
	}
	return c.Pages[len(c.Pages)-1]
}

// start has the client ask from From on.
func (c *Client) start(w *World) {
	c.site = &w.site
	if c.random == nil {
		c.random = w.random
	}
	if c.To == 0 {
		c.To = math.Inf(1)
	}
	if c.Rate > 0 {
		w.after(c.From, func() { c.flood(w) })
		return
	}
	for range max(1, c.Parallel) {
		w.after(c.From+c.random.Float64()*max(c.Think, 0.05), func() { c.browse(w) })
	}
}

func (c *Client) flood(w *World) {
	if w.now > c.To {
		return
	}
	w.ask(c, c.pick(), func(bool) {})
	w.after(c.random.ExpFloat64()/c.Rate, func() { c.flood(w) })
}

func (c *Client) browse(w *World) {
	if w.now > c.To {
		return
	}
	then := func(ok bool) {
		pause := c.random.ExpFloat64() * c.Think
		if !ok {
			pause = max(pause, c.Retry)
		}
		next := func() {
			if !c.Once {
				w.after(pause+0.001, func() { c.browse(w) })
			}
		}
		if !ok || !c.Browser || !c.site.parts && len(c.Parts) == 0 {
			next()
			return
		}
		c.load(w, next)
	}
	if c.Types > 0 {
		c.enter(w, then)
		return
	}
	w.ask(c, c.pick(), then)
}

// load asks for the parts of a page, and calls then when the last one is there.
func (c *Client) load(w *World, then func()) {
	parts := c.Parts
	if len(parts) == 0 {
		parts = slices.Repeat([]Page{part()}, 2)
	}
	left, coming := parts, len(parts)
	var next func()
	next = func() {
		if len(left) == 0 {
			return
		}
		p := left[0]
		left = left[1:]
		w.ask(c, p, func(bool) {
			if coming--; coming == 0 {
				then()
				return
			}
			next()
		})
	}
	for range max(1, c.Connections) {
		next()
	}
}

// keyEach is how many seconds pass between two keystrokes.
const keyEach = 0.15

// enter types what it looks for. Only what the last keystroke asks for counts.
func (c *Client) enter(w *World, then func(ok bool)) {
	var last *visit
	for i := range c.Types {
		w.after(float64(i)*keyEach, func() {
			if last != nil {
				last.abort()
			}
			done := func(bool) {}
			if i == c.Types-1 {
				done = then
			}
			last = w.ask(c, c.pick(), done)
		})
	}
}

// request makes one of the client's.
func (c *Client) request(w *World, page Page) *request {
	cost := page.CPU
	if !page.Exact {
		cost *= 0.5 + c.random.Float64()
	}
	address := c.from(w)
	target := url.URL{Path: page.Path}
	if page.Query != "" {
		w.number++
		target.RawQuery = page.Query + strconv.Itoa(w.number)
	}
	return &request{client: c, page: page, cpu: cost, asked: w.now, http: c.message(page, &target, address), at: w.balance(address)}
}

// follow makes the request that a redirect of another one asks for.
func (c *Client) follow(w *World, r *request) *request {
	address := c.from(w)
	return &request{client: c, page: r.page, cpu: r.cpu, asked: r.asked, http: c.message(r.page, r.http.URL, address), at: w.balance(address)}
}

// from is the address of the client's next request.
func (c *Client) from(w *World) uint32 {
	switch {
	case c.Fresh: // of a /16 of its own
		w.fresh += 0x10000
		return w.fresh
	case c.Roams:
		c.roamed++
		return c.Address&^0xff + 1 + c.roamed%254
	}
	return c.Address
}

// message makes a request for a page as it comes to the proxy.
func (c *Client) message(page Page, target *url.URL, from uint32) *http.Request {
	agent, method := c.Agent, http.MethodGet
	if c.Fresh {
		agent = browser(int(from >> 16))
	}
	if page.Upload > 0 {
		method = http.MethodPost
	}
	h := http.Header{
		"User-Agent": {agent}, "Accept": {"*/*"}, "Accept-Language": {"en"}, "Accept-Encoding": {"gzip"},
	}
	if method == http.MethodGet && !c.Part(page.Path) { // a navigation, or what passes for one
		h["Accept"] = []string{"text/html,application/xhtml+xml,*/*;q=0.8"}
	}
	if c.Browser && c.cookie != "" {
		h["Cookie"] = append(h["Cookie"], c.cookie)
	}
	if c.pass != "" {
		h["Cookie"] = []string{strings.Join(append(h["Cookie"], c.pass), "; ")}
	}
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], from)
	return &http.Request{
		Method: method, ProtoMajor: 1, ProtoMinor: 1, Host: cmp.Or(c.Host, "site.test"), Header: h, URL: target,
		RequestURI: target.RequestURI(), RemoteAddr: netip.AddrPortFrom(netip.AddrFrom4(ip), 1).String(),
	}
}

// browser is one of six User-Agents that people have.
func browser(i int) string {
	agents := [...]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 Firefox/133.0",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
		"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
	}
	return agents[i%len(agents)]
}

// robot is a program that does not say that it is one.
func robot(i int) string { return fmt.Sprintf("fetcher%c/1.0", 'a'+rune(i%26)) }

// visit is what a client goes through for one page: a request, and another one if
// it follows a redirect.
type visit struct {
	*World
	client   *Client
	request  *request // the last one
	answered bool     // its answer has begun
	ended    bool
	then     func(ok bool)
}

// ask sends a request for a page and calls then when the answer was read, or the
// client left. The latency is until the answer begins.
func (w *World) ask(c *Client, page Page, then func(ok bool)) *visit {
	v := &visit{World: w, client: c, then: then}
	r := c.request(w, page)
	w.after(c.Timeout, func() {
		if !v.answered {
			v.leave()
		}
	})
	if c.HangsUp > 0 {
		w.after(c.HangsUp, v.leave)
	}
	v.send(r)
	return v
}

func (v *visit) send(r *request) {
	v.request = r
	r.answer = v.receive
	r.over = func() {
		if r.page.Stream > 0 && v.answered {
			v.end(true)
		}
	}
	r.at.arrive(r)
	if n := len(r.at.waiting); v.now >= v.from {
		v.held = max(v.held, n)
	}
}

// receive takes an answer that begins.
func (v *visit) receive(status int, h http.Header) {
	if v.ended {
		return
	}
	v.client.keep(h)
	r := v.request
	if status == http.StatusFound && v.client.Follows > 0 {
		v.after(v.client.Follows, func() {
			if !v.ended {
				v.send(v.client.follow(v.World, r))
			}
		})
		return
	}
	v.answered = true
	v.note(r, status == http.StatusOK)
	if reading := r.takes(r.page.Answer); status != http.StatusOK {
		v.end(false)
	} else if reading > 0 {
		v.after(reading, func() { v.end(true) })
	} else if r.page.Stream == 0 {
		v.end(true)
	}
}

// leave is what a client does that has lost its patience.
func (v *visit) leave() {
	if v.ended {
		return
	}
	v.request.at.leave(v.request)
	if !v.answered {
		v.note(v.request, false)
	}
	v.end(false)
}

// abort is what a client does that has no use for the answer any more.
func (v *visit) abort() {
	v.answered = true // not for it
	v.leave()
}

func (v *visit) end(ok bool) {
	if !v.ended {
		v.ended = true
		v.request.at.spool.drop(v.request)
		v.then(ok)
	}
}

// keep takes the cookies that a client keeps.
func (c *Client) keep(h http.Header) {
	for _, line := range h["Set-Cookie"] {
		given, _, _ := strings.Cut(line, ";")
		switch {
		case strings.HasPrefix(given, newcomer.CookieName+"="):
			if c.Follows > 0 {
				c.pass = given
			}
		case c.Browser:
			c.cookie = given
		}
	}
}

// request is one on its way.
type request struct {
	client *Client
	page   Page
	http   *http.Request
	cpu    float64 // what it will cost; nobody knows
	asked  float64 // when its client began to send it

	// at the backend
	stage  stage
	doneAt float64
	since  float64 // when it began to compute
	had    float64 // of the CPUs, in seconds, as was last read
	queued float64 // the same of what it waited for them
	step   int     // how far it has stepped down
	index  int     // among those that have stepped down as far
	holds  int     // how often it began or ended to hold its worker without computing
	then   func()  // what comes after that
	broken bool    // its connection was closed before all of it had come

	// at the proxy
	at *proxy
	lifecycle.Life
	running bool
	begun   bool    // its answer has
	gone    bool    // its client left
	spooled float64 // bytes

	// at the client
	answer func(status int, header http.Header) // it begins
	over   func()                               // nothing more comes
}

// takes is for how many seconds so many bytes are on the way to or from the
// client.
func (r *request) takes(bytes float64) float64 {
	if r.client.Speed == 0 {
		return 0
	}
	return max(0, bytes/r.client.Speed)
}

// uploading is for how many more seconds the body comes.
func (r *request) uploading(now float64) float64 {
	return max(0, r.asked+r.takes(r.page.Upload)-now)
}

// answer takes down one that the proxy gives itself. It has no body.
type answer struct {
	status int
	header http.Header
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
