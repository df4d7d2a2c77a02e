package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"tempomat/internal/testkit"
)

const googlebotSays = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// nameServer serves the names of two crawlers, one of which is forged. It returns the server's address and the number
// of queries.
func nameServer(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	records := map[string]string{
		"PTR 1.66.249.66.in-addr.arpa.":          "crawl-66-249-66-1.googlebot.com.",
		"A crawl-66-249-66-1.googlebot.com.":     "66.249.66.1",
		"PTR 1.100.51.198.in-addr.arpa.":         "crawl-66-249-66-1.googlebot.com.",
		"AAAA crawl6.googlebot.com.":             "2001:4860:4801::1",
		"PTR " + reverse(t, "2001:4860:4801::1"): "crawl6.googlebot.com.",
	}
	questions := new(atomic.Int64)
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &dns.Server{PacketConn: c, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		questions.Add(1)
		m, q := new(dns.Msg).SetReply(r), r.Question[0]
		kind := dns.TypeToString[q.Qtype]
		if data, ok := records[kind+" "+strings.ToLower(q.Name)]; ok {
			rr, _ := dns.NewRR(q.Name + " 60 IN " + kind + " " + data)
			m.Answer = append(m.Answer, rr)
		} else {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})}
	ended := make(chan error, 1)
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	go func() { ended <- s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown(); <-ended })
	return c.LocalAddr().String(), questions
}

func reverse(t *testing.T, address string) string {
	t.Helper()
	name, err := dns.ReverseAddr(address)
	testkit.Must(t, err)
	return name
}

// asRobot requests a page as a client with the given address and User-Agent.
func (s *sidecarProcess) asRobot(address, agent string) {
	s.t.Helper()
	h := from(address)
	h.Set("User-Agent", agent)
	if a := fetch(s.t, newClient(s.t), http.MethodGet, s.url+"/page", h, nil); a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s as %s: %s", address, agent, a.Status)
	}
}

// accounts returns the keys of a class, as the doctor shows them.
func (s *sidecarProcess) accounts(class string) string {
	s.t.Helper()
	status, stdout, stderr := s.doctor("--bucket", class)
	if status != 0 {
		s.t.Fatal(stderr)
	}
	return stdout
}

// TestRobots: a genuine crawler has one account for all its addresses, and a forged one is charged by its address as
// usual. A robot from a list, or with nothing but a name, has an account of its own. The doctor shows the accounts by
// name.
func TestRobots(t *testing.T) {
	t.Parallel()
	server, questions := nameServer(t)
	file := filepath.Join(tempDir(t), "gptbot.json")
	testkit.ReplaceFile(t, file, `{"creationTime": "2026-11-01", "prefixes": [{"ipv6Prefix": "2001:db8:77::/48"}, {"ipv4Prefix": "203.0.113.0/28"}]}`)
	backend := pageBackend(t)
	yaml := fmt.Sprintf("log: {access: all}\nrobots: {resolver: %q, known: [{name: gptbot, addresses: [%q]}]}\n", server, "file:"+file)
	s := startProxy(t, backend, yaml)

	for _, address := range []string{"66.249.66.1", "2001:4860:4801::1", "198.51.100.1"} {
		s.asRobot(address, googlebotSays) // not verified yet
	}
	testkit.Eventually(t, "a verified robot has its account", func() bool {
		s.asRobot("66.249.66.1", googlebotSays)
		s.asRobot("2001:4860:4801::1", googlebotSays)
		return strings.Count(s.Stderr.String(), `"evidence":"verified"`) >= 4 && strings.Contains(s.accounts("robot"), "googlebot")
	})
	testkit.Eventually(t, "the liar is found out", func() bool {
		s.asRobot("198.51.100.1", googlebotSays)
		return strings.Contains(s.Stderr.String(), "forged")
	})
	s.asRobot("2001:db8:77::5", "Mozilla/5.0 (compatible; GPTBot/1.2)")
	s.asRobot("192.0.2.9", "SomeBot/1.0")
	robots := s.accounts("robot")
	for _, want := range []string{"googlebot", "gptbot", "somebot", "(others)"} {
		if !strings.Contains(robots, want) {
			t.Errorf("the doctor does not show %s:\n%s", want, robots)
		}
	}
	if addresses := s.accounts("slash32"); !strings.Contains(addresses, "198.51.100.1") || strings.Contains(addresses, "2001:db8:77") {
		t.Errorf("charged by address:\n%s", addresses)
	}
	if _, stdout, _ := s.doctor("explain", "googlebot"); !strings.Contains(stdout, "robot") {
		t.Errorf("tempomat-doctor explain googlebot:\n%s", stdout)
	}
	for range 20 {
		s.asRobot("198.51.100.1", googlebotSays)
		s.asRobot("66.249.66.1", googlebotSays)
	}
	if got := questions.Load(); got > 6 {
		t.Errorf("%d questions for three addresses", got)
	}

	testkit.ReplaceFile(t, file, "not a list\n")
	if status, _, stderr := s.doctor("reload"); status == 0 || !strings.Contains(stderr, file) {
		t.Errorf("a broken list is taken: %d %s", status, stderr)
	}
	testkit.ReplaceFile(t, file, "192.0.2.128/25 # a line\n")
	if status, _, stderr := s.doctor("reload"); status != 0 {
		t.Fatal(stderr)
	}
	s.asRobot("2001:db8:77::5", "Mozilla/5.0 (compatible; GPTBot/1.2)")
	testkit.Eventually(t, "who is on the list no more is a liar", func() bool {
		return strings.Count(s.Stderr.String(), "forged") > 1 && strings.Contains(s.accounts("slash32"), "2001:db8:77")
	})
}

// operators are the servers of all robots' operators, behind a proxy that HTTPS_PROXY may name.
type operators struct {
	env     []string
	mu      sync.Mutex                  // guards the fields below
	answers map[string]http.HandlerFunc // answers by host and path; others get 404
}

func startOperators(t *testing.T) *operators {
	t.Helper()
	o := &operators{answers: make(map[string]http.HandlerFunc)}
	authority := testkit.NewAuthority(t)
	pool := filepath.Join(tempDir(t), "ca.pem")
	testkit.ReplaceFile(t, pool, string(authority.PEM()))
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		answer := o.answers[r.Host+r.URL.Path]
		o.mu.Unlock()
		if answer == nil {
			answer = http.NotFound
		}
		answer(w, r)
	}))
	origin.Config.ErrorLog = log.New(io.Discard, "", 0) // hosts without a certificate count as down
	origin.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "openai.com", "chatgpt.com", "claude.com", "www.bing.com")}}
	origin.StartTLS()
	t.Cleanup(origin.Close)
	proxy := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			t.Errorf("the proxy is asked for %s %s", r.Method, r.URL)
		}
		to, err := net.Dial("tcp", origin.Listener.Addr().String())
		if err != nil {
			return
		}
		defer to.Close()
		from, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, read) }() // including the bytes that were read ahead
		_, _ = io.Copy(from, to)
	})
	o.env = []string{"HTTPS_PROXY=" + proxy, "SSL_CERT_FILE=" + pool, "TEMPOMAT_ROBOTS_REFRESH=on"}
	return o
}

func (o *operators) answer(at string, with http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[at] = with
}

// prefixes answers with a list of one network.
func prefixes(network string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"prefixes": [{"ipv4Prefix": %q}]}`, network)
	}
}

// asSigner requests a page with a Web Bot Auth signature.
func (s *sidecarProcess) asSigner(t *testing.T, key ed25519.PrivateKey, signer, agent string) {
	t.Helper()
	now := time.Now().Unix()
	params := fmt.Sprintf(`("@authority" "@method" "@path" "signature-agent");created=%d;keyid="one";alg="ed25519";expires=%d;nonce=%q;tag="web-bot-auth"`, now, now+60, rand.Text())
	base := fmt.Sprintf("\"@authority\": %s\n\"@method\": GET\n\"@path\": /page\n\"signature-agent\": %q\n\"@signature-params\": %s", strings.TrimPrefix(s.url, "http://"), signer, params)
	h := from("192.0.2.77")
	h.Set("User-Agent", agent)
	h.Set("Signature-Agent", strconv.Quote(signer))
	h.Set("Signature-Input", "sig1="+params)
	h.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(base)))+":")
	if a := fetch(t, newClient(t), http.MethodGet, s.url+"/page", h, nil); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status)
	}
}

// TestListsOfRobots: the operators' lists are fetched through a proxy, and distinguish crawlers from robots that fetch
// pages for people. The lists and the keys of signers survive a restart.
func TestListsOfRobots(t *testing.T) {
	t.Parallel()
	o := startOperators(t)
	o.answer("openai.com/gptbot.json", prefixes("203.0.113.16/28"))
	o.answer("openai.com/chatgpt-user.json", prefixes("203.0.113.32/28"))
	public, key, _ := ed25519.GenerateKey(nil)
	o.answer("chatgpt.com/.well-known/http-message-signatures-directory", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": %q}]}`, base64.RawURLEncoding.EncodeToString(public))
	})
	backend := pageBackend(t)
	s := startProxyWith(t, o.env, nil, backend, "log: {access: all}\n")
	browser := "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	fetched := func() {
		t.Helper()
		testkit.Eventually(t, "the lists are there", func() bool {
			s.asRobot("203.0.113.17", "GPTBot/1.2")
			s.asRobot("203.0.113.33", browser)
			s.asRobot("198.51.100.1", "GPTBot/1.2")
			text := s.accounts("robot")
			return strings.Contains(text, "gptbot  (by its list, 1 prefixes of 20") && strings.Contains(text, "openai for people") && strings.Contains(s.Stderr.String(), `"forged"`)
		})
	}
	fetched()
	testkit.Eventually(t, "the log says what is not believed", func() bool {
		return strings.Contains(s.Stderr.String(), `"list":"https://openai.com/searchbot.json"`) && strings.Contains(s.Stderr.String(), "the server answers 404")
	})
	testkit.Eventually(t, "a signed request is its signer's", func() bool {
		s.asSigner(t, key, "https://chatgpt.com", browser)
		return strings.Contains(s.accounts("robot"), "openai for people  (by its list, by its signature, 1 prefixes")
	})
	s.Kill()
	o.answer("openai.com/gptbot.json", nil)
	o.answer("openai.com/chatgpt-user.json", nil)
	s.startAgain(o.env...)
	fetched()
}
