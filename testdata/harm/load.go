package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// group is a group of similar clients. Each has a loopback address of its own, unless oneAddress is set.
type group struct {
	name   string
	users  int           // clients that make one visit after another
	rate   float64       // instead of users: visits that begin per second, each from another client
	once   bool          // each user makes only one visit
	reps   int           // number of visits of each user; 0: until the end
	spread time.Duration // the time within which the users begin
	at     time.Duration // when they begin
	think  time.Duration // pause between two visits, varied from half to one and a half times this

	page       string // the path; %N becomes a number that no other request has
	assets     int    // parts of the page
	conns      int    // connections of each client; 0: any number
	body       int    // bytes of the request's body
	cookies    bool
	oneAddress bool
	agent      string        // the User-Agent; empty: those of browsers
	timeout    time.Duration // 0: 90 s
}

// answer is the outcome of a request.
type answer struct {
	kind     string
	ok, late bool // late: the load ended before the request did
	took     time.Duration
}

// load is a load to play, and its results.
type load struct {
	base    string
	mu      sync.Mutex
	answers []answer
	clients atomic.Int64
	numbers atomic.Int64
}

func (l *load) note(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// play plays groups for a limited time, and returns how long this took.
func (l *load) play(groups []group, lasts time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for _, g := range groups {
		address := ""
		if g.oneAddress {
			address = l.address()
		}
		if g.rate > 0 {
			all.Go(func() { l.open(ctx, &all, g, address) })
			continue
		}
		for i := range g.users {
			all.Go(func() { l.user(ctx, g, l.client(g, address, i)) })
		}
	}
	all.Wait()
	return time.Since(began)
}

// open begins visits at random times, regardless of earlier visits.
func (l *load) open(ctx context.Context, all *sync.WaitGroup, g group, address string) {
	wait(ctx, g.at)
	for i := 0; ctx.Err() == nil; i++ {
		all.Go(func() { l.visit(ctx, g, l.client(g, address, i)) })
		wait(ctx, time.Duration(rand.ExpFloat64()/g.rate*float64(time.Second)))
	}
}

func (l *load) user(ctx context.Context, g group, c *http.Client) {
	wait(ctx, g.at+time.Duration(rand.Float64()*float64(g.spread)))
	for i := 0; ctx.Err() == nil && (g.reps == 0 || i < g.reps); i++ {
		if l.visit(ctx, g, c); g.once {
			return
		}
		wait(ctx, time.Duration((0.5+rand.Float64())*float64(g.think)))
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *load) address() string {
	n := uint32(l.clients.Add(1)*104729) & 0xffffff //nolint:gosec // truncated on purpose
	return fmt.Sprintf("127.%d.%d.%d", 1+n>>16%250, n>>8&255, 1+n%250)
}

// client makes a client. Its transport is an agent, which sets the User-Agent.
func (l *load) client(g group, address string, i int) *http.Client {
	if address == "" {
		address = l.address()
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := &http.Client{Timeout: g.timeout, Transport: &agent{
		Transport: http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 1000, MaxConnsPerHost: g.conns, IdleConnTimeout: 4 * time.Second},
		name:      g.agent, i: i,
	}}
	if c.Timeout == 0 {
		c.Timeout = 90 * time.Second
	}
	if g.cookies {
		c.Jar, _ = cookiejar.New(nil)
	}
	return c
}

// agent sends a User-Agent, and the other headers that a browser sends.
type agent struct {
	http.Transport
	name string
	i    int
}

func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	browsers := [...]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
	}
	name, accept := a.name, "*/*"
	if name == "" {
		name = browsers[a.i%len(browsers)]
		r.Header.Set("Accept-Language", "de,en;q=0.5")
		if strings.Contains(r.URL.Path, ".php") {
			accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
		}
	}
	r.Header.Set("User-Agent", name)
	r.Header.Set("Accept", accept)
	return a.Transport.RoundTrip(r)
}

// visit requests a page, and then its parts on six connections.
func (l *load) visit(ctx context.Context, g group, c *http.Client) {
	page := strings.ReplaceAll(g.page, "%N", fmt.Sprint(l.numbers.Add(1)))
	if !l.ask(ctx, c, g.name, page, g.body) || g.assets == 0 {
		return
	}
	parts := make(chan int, g.assets)
	for i := range g.assets {
		parts <- i
	}
	close(parts)
	var all sync.WaitGroup
	for range max(6, g.conns) {
		all.Go(func() {
			for i := range parts {
				l.ask(ctx, c, g.name+"'s parts", fmt.Sprintf("/s/%d%s", i/2%8, [...]string{".css", ".png"}[i%2]), 0)
			}
		})
	}
	all.Wait()
}

// ask sends one request and reads its answer.
func (l *load) ask(ctx context.Context, c *http.Client, kind, path string, body int) bool {
	method, sends := http.MethodGet, io.Reader(http.NoBody)
	if body > 0 {
		method, sends = http.MethodPost, bytes.NewReader(make([]byte, body))
	}
	r, err := http.NewRequestWithContext(ctx, method, l.base+path, sends)
	if err != nil {
		panic(err)
	}
	began := time.Now()
	ok := false
	if got, err := c.Do(r); err == nil {
		_, err = io.Copy(io.Discard, got.Body)
		got.Body.Close() //nolint:errcheck // it was read
		ok = err == nil && got.StatusCode < 300
	}
	l.note(answer{kind, ok, ctx.Err() != nil, time.Since(began)})
	return ok
}
