package proof

import (
	"cmp"
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
	"os"
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
	refreshEvery = 6 * time.Hour    // time between two requests for a list, changed at random by up to a quarter
	retryAfter   = 15 * time.Minute // time until the next request after a failed one
	refreshKeys  = time.Hour        // time between two requests for keys; a new key counts only after it was fetched
	patience     = 20 * time.Second // time limit of a request, from the connection to the last byte
	longestList  = 2 << 20          // bytes of the longest answer; Amazon's list is 360 kB
	mostPrefixes = 8192             // number of prefixes in the longest list
	fewPrefixes  = 10               // number of prefixes below which a list may grow or shrink by any factor
	// The lengths of the widest prefixes that an operator may publish.
	widest4, widest6 = 12, 28
)

// Publishers fetches the lists of addresses and the directories of keys that operators of robots publish.
// [Publishers.Run] requests each of them every few hours, one at a time. If an answer is implausible, the
// previous list stays in use. The methods may be called concurrently.
type Publishers struct {
	*Signers
	client   *http.Client
	patience time.Duration
	log      *zap.Logger
	lists    atomic.Pointer[robots.Lists]
	changed  chan struct{} // receives a value after a call of Ask

	mu     sync.Mutex // guards the fields below; no request takes it
	asked  map[string]*publication
	silent bool // whether the latest request got no answer and this was logged
}

// publication is a list or directory with its latest valid answer. Exported fields survive a restart.
type publication struct {
	URL       string
	ETag      string
	Prefixes  []netip.Prefix
	Keys      []key
	Confirmed time.Time // when a request last showed that the operator publishes this content

	operator string
	signer   string // host that signs with these keys; empty: the publication is a list of addresses
	networks classify.PrefixSet
	due      time.Time
	refused  string // why the latest answer was rejected; empty: it wasn't
	silent   bool   // whether the latest request got no answer
}

// every returns the time between two requests for the publication.
func (x *publication) every() time.Duration {
	if x.signer != "" {
		return refreshKeys
	}
	return refreshEvery
}

// NewPublishers makes Publishers that use a transport for all requests.
func NewPublishers(t http.RoundTripper, log *zap.Logger) *Publishers {
	p := &Publishers{
		Signers: newSigners(), client: &http.Client{Transport: t, CheckRedirect: staysThere}, patience: patience, log: log,
		changed: make(chan struct{}, 1),
	}
	p.lists.Store(robots.NewLists(nil))
	return p
}

// Transport returns a transport that connects only to public addresses. If the environment names a proxy
// (HTTPS_PROXY), the transport connects to the proxy, and doesn't check addresses.
func Transport() http.RoundTripper {
	t := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, Proxy: http.ProxyFromEnvironment}
	if cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy")) != "" {
		return t
	}
	t.DialContext = (&net.Dialer{Timeout: patience, Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err == nil && !isPublic(netip.PrefixFrom(a.Addr(), a.Addr().BitLen())) {
			err = fmt.Errorf("%s is not a public address", a.Addr())
		}
		return err
	}}).DialContext
	return t
}

// staysThere allows redirects only to the same server.
func staysThere(r *http.Request, via []*http.Request) error {
	if len(via) > 3 || r.URL.Scheme != "https" || r.URL.Host != via[0].URL.Host {
		return elsewhere{r.URL.Redacted()}
	}
	return nil
}

// elsewhere means that a server redirects to another one.
type elsewhere struct{ url string }

func (e elsewhere) Error() string { return "it redirects to " + e.url }

// isPublic reports whether a prefix has only addresses that can be reached on the internet.
func isPublic(p netip.Prefix) bool {
	p = classify.Unmap(p)
	for _, private := range []string{
		"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		"::1/128", "fc00::/7", "fe80::/10",
	} {
		if p.Overlaps(netip.MustParsePrefix(private)) {
			return false
		}
	}
	return p.Addr().IsGlobalUnicast()
}

// Ask sets the robots whose keys and lists are fetched. A list isn't fetched if the configuration gives the
// robot's addresses. All other lists and keys are discarded.
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

// Lists returns the current lists.
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

// Run keeps the lists and keys up to date until the context ends. It is called once.
func (p *Publishers) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := time.NewTimer(time.Until(p.refresh(ctx, time.Now())))
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// refresh fetches the publications that are due, and returns when the next one is due.
func (p *Publishers) refresh(ctx context.Context, now time.Time) (next time.Time) {
	p.mu.Lock()
	due := slices.SortedFunc(maps.Values(p.asked), func(a, b *publication) int { return strings.Compare(a.URL, b.URL) })
	p.mu.Unlock()
	next = now.Add(refreshEvery)
	for _, x := range due {
		if !x.due.After(now) && ctx.Err() == nil { // only this goroutine sets due
			got, err := p.fetch(ctx, x.URL, x.ETag)
			p.take(now, x, got, err)
		}
		if x.due.Before(next) {
			next = x.due
		}
	}
	return next
}

// reply is the answer from a server.
type reply struct {
	same bool // whether the publication is unchanged, according to the ETag
	etag string
	text string
}

// unanswered means that a server did not answer.
type unanswered struct{ error }

// fetch fetches a list or keys, unless they have not changed since the ETag.
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
		return a, fmt.Errorf("the answer is incomplete: %w", err)
	case len(text) > longestList:
		return a, fmt.Errorf("the answer is longer than %d MB", longestList>>20)
	}
	if etag = answered.Header.Get("ETag"); len(etag) > 1024 {
		etag = ""
	}
	return reply{etag: etag, text: string(text)}, nil
}

// take stores an answer if it is plausible.
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
		prefixes, err = p.believeLocked(now, x, a.text)
	}
	if err != nil {
		x.due = around(now, retryAfter)
		p.tellLocked(x, err)
		return
	}
	p.silent, x.silent, x.refused, x.Confirmed, x.due = false, false, "", now, around(now, x.every())
	if !a.same {
		if len(x.Prefixes) > 0 && !slices.Equal(x.Prefixes, prefixes) {
			p.log.Info("the list of a robot's addresses has changed", zap.String("list", x.URL), zap.Int("prefixes", len(prefixes)), zap.Int("before", len(x.Prefixes)))
		}
		x.ETag, x.Prefixes, x.Keys = a.etag, prefixes, published
		x.networks = classify.NewPrefixSet(prefixes)
	}
	p.publishLocked()
}

// around returns a time about that long after now, varied by up to a quarter, so that instances don't all send
// requests at once.
func around(now time.Time, after time.Duration) time.Time {
	return now.Add(time.Duration((0.75 + rand.Float64()/2) * float64(after))) //nolint:gosec // spreads requests, needn't be secret
}

// tellLocked logs a fault once for each list. If servers don't answer, it logs this only once for all lists.
func (p *Publishers) tellLocked(x *publication, err error) {
	before, silent := x.refused, x.silent
	if _, x.silent = errors.AsType[unanswered](err); x.silent {
		if x.refused = "no answer"; !silent && !p.silent {
			p.log.Warn("can't fetch the addresses or keys that a robot's operator publishes: the server doesn't answer. The last version, if any, stays in use. Allow HTTPS to that server, name a proxy in HTTPS_PROXY, or set robots.refresh: off",
				zap.String("list", x.URL), zap.Error(err))
		}
		p.silent = true
		return
	}
	p.silent = false
	if x.refused = err.Error(); x.refused != before {
		level := zap.WarnLevel
		if x.Confirmed.IsZero() { // no warning, because no list is in use, and the administrator can't change the operator's server
			level = zap.InfoLevel
		}
		p.log.Log(level, "can't use the addresses or keys that a robot's operator publishes: the server's answer is implausible. The last version stays in use",
			zap.String("list", x.URL), zap.Error(err), zap.Int("prefixes", len(x.Prefixes)), zap.Time("confirmed", x.Confirmed))
	}
}

// believeLocked reads a list. The error says why the list is implausible. The list isn't compared with others
// that aren't up to date, because their operators may have disappeared or changed everything at once.
func (p *Publishers) believeLocked(now time.Time, x *publication, text string) ([]netip.Prefix, error) {
	published, err := readList(x.URL, text)
	if err != nil {
		return nil, err
	}
	prefixes, err := believable(published)
	if err != nil {
		return nil, err
	}
	isOld := func(x *publication) bool { return now.Sub(x.Confirmed) > robots.UpToDate }
	if was, is := len(x.Prefixes), len(prefixes); was >= fewPrefixes && !isOld(x) && (is*10 <= was || is >= was*10) {
		return nil, fmt.Errorf("it has %d prefixes instead of %d", is, was)
	}
	for _, other := range p.asked {
		if other == x || isOld(other) {
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
			return nil, fmt.Errorf("most of its prefixes are also on %s, and none were before, so it is probably the list of another robot", other.URL)
		}
	}
	return prefixes, nil
}

// readList reads a list in JSON, or a text with a prefix on each line.
func readList(url, text string) ([]string, error) {
	if strings.HasSuffix(url, ".txt") {
		return strings.Fields(text), nil
	}
	return robots.Published(text)
}

// believable parses the prefixes of a list. It rejects the whole list if one of them can't be the network of
// a single operator on the internet.
func believable(published []string) ([]netip.Prefix, error) {
	if n := len(published); n == 0 || n > mostPrefixes {
		return nil, fmt.Errorf("it has %d prefixes; 1 to %d are plausible", n, mostPrefixes)
	}
	all := make([]netip.Prefix, 0, len(published))
	for _, text := range published {
		prefix, err := netip.ParsePrefix(text)
		if a, wrong := netip.ParseAddr(text); wrong == nil {
			prefix, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%.50q is not a prefix", text)
		}
		prefix = classify.Unmap(prefix)
		widest := widest4
		if prefix.Addr().Is6() {
			widest = widest6
		}
		if prefix.Bits() < widest || !isPublic(prefix) {
			return nil, fmt.Errorf("%s is too large, or not on the internet, so it can't belong to one operator", prefix)
		}
		all = append(all, prefix)
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all), nil
}

// AppendBinary appends the data that must survive a restart.
func (p *Publishers) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(slices.Collect(maps.Values(p.asked)))
	return append(b, text...), err
}

// UnmarshalBinary loads what AppendBinary appended, except for lists and keys that Ask didn't name.
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
			x.networks = classify.NewPrefixSet(was.Prefixes)
		}
	}
	p.publishLocked()
	return nil
}
