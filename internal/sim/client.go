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

// Page is a page that a client requests.
type Page struct {
	Path  string
	Part  float64 // the fraction of the client's requests; the last page gets the rest
	CPU   float64 // CPU-seconds; unless Exact, the cost varies from half to one and a half times this
	Sleep float64 // seconds for which the worker also waits, for example for a database
	Exact bool    // the cost doesn't vary
	Query string  // the beginning of the URL's query; a unique number follows
	Novel bool    // no earlier request had the name of the URL's parameter or, if Path ends in a slash, the page

	Upload  float64 // bytes of the request's body
	Chunked bool    // the size isn't announced, so the proxy forwards the body while it arrives
	Answer  float64 // bytes of the answer
	Stream  float64 // seconds that the answer lasts, with an event each second
}

// eventEach is how often a stream sends an event, in seconds.
const eventEach = 1.0

// Client is one source of requests. Without a Rate, it makes requests in a closed loop on Parallel connections:
// the next request follows when the client has read the answer or given up. With a Rate, it makes requests
// regardless of answers.
type Client struct {
	Kind     string // "human", "nat" and "admin" are people
	Address  uint32 // IPv4
	Host     string // the requested host; empty: the only site, or the site of all other hosts
	Agent    string
	Parallel int     // at least 1
	Rate     float64 // requests per second; 0: a closed loop
	Fresh    bool    // each request comes from a new address
	Roams    bool    // each request comes from another address in the client's /24
	Think    float64 // mean number of seconds between an answer and the next request
	Pages    []Page
	Browser  bool    // it loads the parts of its pages and sends cookies back
	Bare     bool    // it sends cookies back, but loads no parts
	Forgets  float64 // the fraction of its pages after which it forgets its cookies
	Attested bool    // the backend vouches for the client
	Timeout  float64 // seconds until it gives up
	Retry    float64 // the shortest pause after a failure, in seconds
	Speed    float64 // bytes per second that the client sends and reads; 0: no limit
	HangsUp  float64 // seconds after which it disconnects, answered or not; 0: never
	From, To float64 // times in seconds between which the client makes requests; if To is 0: until the end
	Once     bool    // it requests only one page, with its parts
	Types    int     // keystrokes per page; each makes a request and aborts the previous one
	// Parts are the parts that a browser loads after a page; if there are none, it loads the site's parts.
	// Connections is how many connections it uses for parts; 0 means one.
	Parts       []Page
	Connections int
	// Follows is how many seconds pass before the client follows a redirect. It sends the cookie that came
	// with the redirect, and keeps it. 0 means that it never follows redirects.
	Follows float64

	site   *site
	random *rand.Rand // the client's own, so other clients don't change how long it thinks; nil: the world's
	cookie string     // the site's cookie
	pass   string     // a newcomer's pass
	roamed uint32
}

// site contains the properties that the pages of all clients have in common.
type site struct {
	cookies bool // the site sets a session cookie for clients that have none
	parts   bool // each page has two parts, which are files that cost 0.2 ms
}

// fileCost is the cost of a part of a page, in CPU-seconds.
const fileCost = 0.0002

func part() Page { return Page{Path: "/theme.css", CPU: fileCost, Exact: true} }

// Part distinguishes parts of pages from pages.
func (c *Client) Part(path string) bool { return strings.HasSuffix(path, ".css") }

// pick chooses one of the client's pages.
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

// start makes the client send requests, beginning at From.
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
		if c.Forgets > 0 && c.random.Float64() < c.Forgets {
			c.cookie, c.pass = "", ""
		}
		if !ok || !c.Browser || c.Bare || !c.site.parts && len(c.Parts) == 0 {
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

// load requests the parts of a page, and calls then after the last one has arrived.
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

// keyEach is the time between two keystrokes, in seconds.
const keyEach = 0.15

// enter simulates typing into a search field. Only the answer to the last keystroke matters.
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

// request makes a request for a page.
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
	if page.Novel {
		w.number++
		if strings.HasSuffix(page.Path, "/") {
			target.Path += word(w.number)
		} else {
			target.RawQuery = word(w.number) + "=1"
		}
	}
	return &request{client: c, page: page, cpu: cost, asked: w.now, http: c.message(page, &target, address), at: w.balance(address)}
}

// follow makes the request that follows the redirect of another request.
func (c *Client) follow(w *World, r *request) *request {
	address := c.from(w)
	return &request{client: c, page: r.page, cpu: r.cpu, asked: r.asked, http: c.message(r.page, r.http.URL, address), at: w.balance(address)}
}

// from returns the address of the client's next request.
func (c *Client) from(w *World) uint32 {
	switch {
	case c.Fresh: // in a /16 that no other client uses
		w.fresh += 0x10000
		return w.fresh
	case c.Roams:
		c.roamed++
		return c.Address&^0xff + 1 + c.roamed%254
	}
	return c.Address
}

// message makes the HTTP request for a page, as it arrives at the proxy.
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
	if method == http.MethodGet && !c.Part(page.Path) { // a navigation, or a request that looks like one
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

// browser returns one of six User-Agents of browsers.
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

// word returns a word of four letters, a different one for each number.
func word(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return string([]byte{letters[n%26], letters[n/26%26], letters[n/676%26], letters[n/17576%26]})
}

// robot returns one of 26 User-Agents of programs that don't identify themselves as robots.
func robot(i int) string { return fmt.Sprintf("fetcher%c/1.0", 'a'+rune(i%26)) }

// visit is a client's request for one page, including the request that follows a redirect.
type visit struct {
	*World
	client   *Client
	request  *request // the last request
	answered bool     // the answer has begun
	ended    bool
	then     func(ok bool)
}

// ask sends a request for a page. It calls then when the client has read the answer or given up. The latency is
// the time until the answer begins.
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

// receive handles the beginning of an answer.
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

// leave ends the visit of a client that has lost patience.
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

// abort ends the visit of a client that no longer needs the answer.
func (v *visit) abort() {
	v.answered = true // keeps the visit from counting as a failure
	v.leave()
}

func (v *visit) end(ok bool) {
	if v.ended {
		return
	}
	then := v.then
	v.request.at.spool.drop(v.request)
	v.ended, v.request, v.then = true, nil, nil // the timeout still refers to the visit, perhaps for many minutes
	then(ok)
}

// keep stores the cookies from an answer that the client keeps.
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

// request is a request in progress.
type request struct {
	client *Client
	page   Page
	http   *http.Request
	cpu    float64 // the cost, which the proxy doesn't know
	asked  float64 // when the client began to send the request

	// at the backend
	stage  stage
	doneAt float64
	since  float64 // when the request began to compute
	had    float64 // CPU-seconds used so far, as last read
	queued float64 // seconds for which it has waited for a CPU, as last read
	step   int     // how many steps its priority has been reduced
	index  int     // its index in the heap of its rank
	holds  int     // how often it began or stopped holding its worker without computing
	then   func()  // called after a hold
	broken bool    // the connection was closed before the whole body had arrived

	// at the proxy
	at *proxy
	lifecycle.Life
	running bool
	begun   bool    // its answer has begun
	gone    bool    // its client has disconnected
	spooled float64 // bytes

	// at the client
	answer func(status int, header http.Header) // called when the answer begins
	over   func()                               // called when the answer has ended
}

// takes returns how many seconds it takes to transfer the given number of bytes to or from the client.
func (r *request) takes(bytes float64) float64 {
	if r.client.Speed == 0 {
		return 0
	}
	return max(0, bytes/r.client.Speed)
}

// uploading returns how many more seconds the body takes to arrive.
func (r *request) uploading(now float64) float64 {
	return max(0, r.asked+r.takes(r.page.Upload)-now)
}

// answer records an answer that the proxy itself gives. It ignores the body.
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
