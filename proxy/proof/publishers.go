package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/robots"
)

const (
	refreshEvery = 6 * time.Hour    // a list that was answered is asked for again, give or take a quarter
	retryAfter   = 15 * time.Minute // the same one that was not
	rotatedAfter = 10 * time.Minute // the same keys of which one is missing
	patience     = 20 * time.Second // with a server, from the connection to the last byte
	longestList  = 2 << 20          // of an answer, in bytes; Amazon's pages have 360 kB
	mostPrefixes = 8192             // of a list
	// The narrowest networks that an operator can have for robots alone.
	widest4, widest6 = 12, 28
)

// Publishers are what operators of robots publish: lists of addresses, and directories of keys.
// [Publishers.Run] asks for each every few hours, one at a time. An answer that is not believable
// changes nothing.
//
// The methods may be called concurrently.
type Publishers struct {
	*Signers
	client   *http.Client
	patience time.Duration
	log      *zap.Logger
	lists    atomic.Pointer[robots.Lists]
	changed  chan struct{} // Ask was called
	rotated  chan string   // a signer whose key is not in its directory

	mu     sync.Mutex // guards the following; no request takes it
	asked  map[string]*publication
	silent bool // the latest question was not answered, which was told
}

// publication is a list as it was answered last. What has a name in capitals outlives a restart.
type publication struct {
	URL       string
	ETag      string
	Prefixes  []netip.Prefix
	Keys      []key
	Confirmed time.Time // when the operator last had it so

	operator string
	signer   string // the host whose keys it has; empty: it is a list of addresses
	asked    time.Time
	networks classify.PrefixSet
	due      time.Time
	refused  string // why the latest answer was not believed; empty: it was
	silent   bool   // there was none
}

// NewPublishers makes Publishers that have not asked yet. All requests go through the transport.
func NewPublishers(t http.RoundTripper, log *zap.Logger) *Publishers {
	p := &Publishers{
		Signers: newSigners(), client: &http.Client{Transport: t, CheckRedirect: staysThere}, patience: patience, log: log,
		changed: make(chan struct{}, 1), rotated: make(chan string, 1),
	}
	p.lists.Store(robots.NewLists(nil))
	p.missing = func(host string) {
		select {
		case p.rotated <- host:
		default: // another one was told; its requests come again
		}
	}
	return p
}

// Transport is for requests to servers of others, of which none leads to a private address. Where
// the environment names a proxy (HTTPS_PROXY), that one finds the servers.
func Transport() http.RoundTripper {
	direct := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	proxied := direct.Clone()
	proxied.Proxy = http.ProxyFromEnvironment
	direct.DialContext = (&net.Dialer{Timeout: patience, Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err == nil && !isPublic(a.Addr()) {
			err = fmt.Errorf("%s is no public address", a.Addr())
		}
		return err
	}}).DialContext
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if proxy, err := http.ProxyFromEnvironment(r); proxy != nil || err != nil {
			return proxied.RoundTrip(r)
		}
		return direct.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// staysThere follows redirects on the same server only.
func staysThere(r *http.Request, via []*http.Request) error {
	if len(via) > 3 || r.URL.Scheme != "https" || r.URL.Host != via[0].URL.Host {
		return elsewhere{r.URL.Redacted()}
	}
	return nil
}

// elsewhere is that a server redirects to another one.
type elsewhere struct{ url string }

func (e elsewhere) Error() string { return "it redirects to " + e.url }

// isPublic reports whether an address may be somebody's on the internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)
	return a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a)
}

// Ask sets whose lists and keys are asked for: the lists of robots for which no addresses are
// given. Nobody's other list is known any more.
func (p *Publishers) Ask(of []robots.Robot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := make(map[string]*publication)
	want := func(x publication) {
		if asked[x.URL] = p.asked[x.URL]; asked[x.URL] == nil {
			asked[x.URL] = &x
		}
	}
	for _, r := range of {
		for _, url := range r.Lists {
			if len(r.Addresses) == 0 {
				want(publication{URL: url, operator: r.Operator})
			}
		}
		for _, host := range r.Signers {
			want(publication{URL: "https://" + host + directory, operator: r.Operator, signer: host})
		}
	}
	p.asked = asked
	p.publishLocked()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Lists are those that were believed.
func (p *Publishers) Lists() *robots.Lists { return p.lists.Load() }

func (p *Publishers) publishLocked() {
	all, signers := make(map[string]robots.List), make(map[string]keys)
	for url, x := range p.asked {
		if len(x.Prefixes) > 0 {
			all[url] = robots.List{Networks: x.networks, Prefixes: x.Prefixes, Confirmed: x.Confirmed}
		}
		if len(x.Keys) > 0 {
			signers[x.signer] = keys{x.Confirmed, x.Keys}
		}
	}
	p.lists.Store(robots.NewLists(all))
	p.keys.Store(&signers)
}

// Run keeps the lists fresh until the context ends. It is called once.
func (p *Publishers) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := time.NewTimer(time.Until(p.refresh(ctx, time.Now())))
		select {
		case <-ctx.Done():
		case <-p.changed:
		case host := <-p.rotated:
			p.askAgain(time.Now(), host)
		case <-wait.C:
		}
		wait.Stop()
	}
}

// askAgain has a signer be asked for its keys soon, if that was not done recently: anybody can name a
// key that there is not.
func (p *Publishers) askAgain(now time.Time, host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.asked {
		if x.signer == host && now.Sub(x.asked) > rotatedAfter {
			x.due = now
		}
	}
}

// refresh asks for the lists that are due, and returns when the next one is.
func (p *Publishers) refresh(ctx context.Context, now time.Time) (next time.Time) {
	p.mu.Lock()
	due := slices.SortedFunc(maps.Values(p.asked), func(a, b *publication) int { return strings.Compare(a.URL, b.URL) })
	p.mu.Unlock()
	next = now.Add(refreshEvery)
	for _, x := range due {
		if !x.due.After(now) && ctx.Err() == nil { // only this goroutine sets it
			x.asked = now
			got, err := p.fetch(ctx, x.URL, x.ETag)
			p.take(now, x, got, err)
		}
		if x.due.Before(next) {
			next = x.due
		}
	}
	return next
}

// reply is what a server answered.
type reply struct {
	same bool // as the ETag says
	etag string
	text string
}

// unanswered is why there is no answer.
type unanswered struct{ error }

// fetch gets a list from its server, or learns by the ETag that it is the same as before.
func (p *Publishers) fetch(ctx context.Context, url, etag string) (a reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	r.Header.Set("User-Agent", "tempomat")
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	answered, err := p.client.Do(r)
	if away, ok := errors.AsType[elsewhere](err); ok {
		return a, away
	}
	if err != nil {
		return a, unanswered{err}
	}
	defer answered.Body.Close()
	switch {
	case answered.StatusCode == http.StatusNotModified && etag != "":
		return reply{same: true}, nil
	case answered.StatusCode != http.StatusOK:
		return a, fmt.Errorf("the server answers %s", answered.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answered.Body, longestList+1))
	switch {
	case err != nil:
		return a, fmt.Errorf("the answer breaks off: %w", err)
	case len(text) > longestList:
		return a, fmt.Errorf("the answer is longer than %d MB", longestList>>20)
	}
	if etag = answered.Header.Get("ETag"); len(etag) > 1024 {
		etag = ""
	}
	return reply{etag: etag, text: string(text)}, nil
}

// take takes an answer in, if it is believable.
func (p *Publishers) take(now time.Time, x *publication, a reply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var prefixes []netip.Prefix
	published := x.Keys
	switch {
	case err != nil || a.same:
	case x.signer != "":
		published, err = readKeys(a.text)
	default:
		prefixes, err = p.believeLocked(x, a.text)
	}
	if err != nil {
		x.due = around(now, retryAfter)
		p.tellLocked(x, err)
		return
	}
	p.silent, x.silent, x.refused, x.Confirmed, x.due = false, false, "", now, around(now, refreshEvery)
	if !a.same {
		if len(x.Prefixes) > 0 && !slices.Equal(x.Prefixes, prefixes) {
			p.log.Info("a robot has other addresses", zap.String("list", x.URL), zap.Int("prefixes", len(prefixes)), zap.Int("before", len(x.Prefixes)))
		}
		x.ETag, x.Prefixes, x.Keys = a.etag, prefixes, published
		x.networks, _ = classify.NewPrefixSet(prefixes) // they are valid
	}
	p.publishLocked()
}

// around is a while after a time, give or take a quarter: not all sidecars ask at once.
func around(now time.Time, after time.Duration) time.Time {
	return now.Add(time.Duration((0.75 + rand.Float64()/2) * float64(after))) //nolint:gosec // spreads requests, hides nothing
}

// tellLocked logs what is wrong with an answer, once; that there is none, once for all lists.
func (p *Publishers) tellLocked(x *publication, err error) {
	before, silent := x.refused, x.silent
	if _, x.silent = errors.AsType[unanswered](err); x.silent {
		if x.refused = "no answer"; !silent && !p.silent {
			p.log.Warn("cannot fetch what a robot's operator publishes: the server does not answer. The last version stays in force. Allow HTTPS to it, name a proxy in HTTPS_PROXY, or set robots.refresh: off",
				zap.String("list", x.URL), zap.Error(err))
		}
		p.silent = true
		return
	}
	p.silent = false
	if x.refused = err.Error(); x.refused != before {
		level := zap.WarnLevel
		if x.Confirmed.IsZero() { // nothing is lost by it, and no administrator can help it
			level = zap.InfoLevel
		}
		p.log.Log(level, "cannot use what a robot's operator publishes: the operator's server gives an unexpected answer. The last version stays in force",
			zap.String("list", x.URL), zap.Error(err), zap.Int("prefixes", len(x.Prefixes)), zap.Time("confirmed", x.Confirmed))
	}
}

// believeLocked reads a list, and tells what is not believable of it.
func (p *Publishers) believeLocked(x *publication, text string) ([]netip.Prefix, error) {
	published, err := readList(x.URL, text)
	if err != nil {
		return nil, err
	}
	prefixes, err := believable(published)
	if err != nil {
		return nil, err
	}
	if was, is := len(x.Prefixes), len(prefixes); was > 0 && (is*10 <= was || is >= was*10) {
		return nil, fmt.Errorf("it has %d prefixes instead of %d", is, was)
	}
	for _, other := range p.asked {
		if other == x {
			continue
		}
		shared := func(of []netip.Prefix) (n int) {
			for _, p := range of {
				if other.networks.Overlaps(p) {
					n++
				}
			}
			return n
		}
		is := shared(prefixes)
		switch {
		case is > 0 && other.operator != x.operator:
			return nil, fmt.Errorf("%d of its prefixes are on the list of another operator, %s", is, other.URL)
		case 2*is > len(prefixes) && len(x.Prefixes) > 0 && 2*shared(x.Prefixes) <= len(x.Prefixes):
			return nil, fmt.Errorf("most of its prefixes are on %s, and none were before: it is the list of another robot", other.URL)
		}
	}
	return prefixes, nil
}

// readList reads a list as its operator publishes it: in JSON, or as a text of lines.
func readList(url, text string) ([]string, error) {
	if strings.HasSuffix(url, ".txt") {
		return strings.Fields(text), nil
	}
	return robots.Published(text)
}

// believable are the prefixes of a list. None of it is believed if one is no network of an
// operator's on the internet.
func believable(published []string) ([]netip.Prefix, error) {
	if n := len(published); n == 0 || n > mostPrefixes {
		return nil, fmt.Errorf("it has %d prefixes; 1 to %d are believable", n, mostPrefixes)
	}
	all := make([]netip.Prefix, 0, len(published))
	for _, text := range published {
		prefix, err := netip.ParsePrefix(text)
		if a, wrong := netip.ParseAddr(text); wrong == nil {
			prefix, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%.50q is no prefix", text)
		}
		widest := widest4
		if prefix.Addr().Is6() {
			widest = widest6
		}
		if prefix.Bits() < widest || !isPublic(prefix.Addr()) {
			return nil, fmt.Errorf("%s is no network of one operator", prefix)
		}
		all = append(all, prefix.Masked())
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), nil
}

// AppendBinary appends what outlives a restart.
func (p *Publishers) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(slices.Collect(maps.Values(p.asked)))
	return append(b, text...), err
}

// UnmarshalBinary takes in what AppendBinary appended, as far as it is asked for.
func (p *Publishers) UnmarshalBinary(data []byte) error {
	var kept []publication
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, was := range kept {
		if x := p.asked[was.URL]; x != nil && x.Confirmed.IsZero() {
			x.ETag, x.Prefixes, x.Keys, x.Confirmed = was.ETag, was.Prefixes, was.Keys, was.Confirmed
			x.networks, _ = classify.NewPrefixSet(was.Prefixes)
		}
	}
	p.publishLocked()
	return nil
}
