package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

const megabyte = 1 << 20

// protocols are the protocols for requests. Each client speaks only one of them.
var protocols = []struct {
	name   string
	major  int
	client func(*testing.T) *http.Client
}{
	{"HTTP1", 1, newClient},
	{"h2c", 2, newH2C},
}

// newClient makes an HTTP/1.1 client whose connections end with the test. It doesn't ask for compression or follow
// redirects.
func newClient(t *testing.T) *http.Client { return newClientOf(t, &http.Transport{}) }

// newH2C makes a client of HTTP/2 without TLS.
func newH2C(t *testing.T) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return newClientOf(t, &http.Transport{Protocols: &p})
}

// newUnixClient makes a client that uses a Unix socket, whatever the host in the URL is.
func newUnixClient(t *testing.T, path string) *http.Client {
	return newClientOf(t, &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	})
}

func newClientOf(t *testing.T, transport *http.Transport) *http.Client {
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 64
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       4 * testkit.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is a response whose body was read to its end.
type answer struct {
	*http.Response
	body string
	took time.Duration
}

// fetch sends a request and reads the answer.
func fetch(t *testing.T, c *http.Client, method, url string, h http.Header, body io.Reader) answer {
	t.Helper()
	from := time.Now()
	res := open(t, c, method, url, h, body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer{res, string(text), time.Since(from)}
}

// open sends a request. A Host in the given headers becomes the host of the request.
func open(t *testing.T, c *http.Client, method, url string, h http.Header, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	testkit.Must(t, err)
	if h != nil {
		req.Header = h
	}
	req.Host = req.Header.Get("Host")
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res
}

// from returns the headers of a request from a client with that address.
func from(client string) http.Header { return http.Header{"X-Forwarded-For": {client}} }

// clicked returns the headers of the request for a user's click, from an address.
func clicked(client string) http.Header {
	h := from(client)
	h.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	h.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	return h
}

// later requests a page in the background and returns the status or the error.
func (s *sidecarProcess) later(h http.Header, path string) <-chan string {
	s.t.Helper()
	c := newClient(s.t)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	testkit.Must(s.t, err)
	req.Header = h
	got := make(chan string, 1)
	go func() {
		res, err := c.Do(req)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			got <- err.Error()
			return
		}
		got <- res.Status
	}()
	return got
}

// ask reads a document of the admin API.
func (s *sidecarProcess) ask(path string, reply any) (status int) {
	s.t.Helper()
	a := fetch(s.t, newUnixClient(s.t, s.admin), http.MethodGet, "http://admin"+path, nil, nil)
	if a.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), reply); err != nil {
			s.t.Fatalf("%s: %v: %s", path, err, a.body)
		}
	}
	return a.StatusCode
}

// account returns the row of a key, and whether the key is known.
func (s *sidecarProcess) account(class, id string) (limiter.Row, bool) {
	s.t.Helper()
	var reply api.KeyReply
	status := s.ask("/v1/key?"+url.Values{"class": {class}, "id": {id}}.Encode(), &reply)
	return reply.Row, status == http.StatusOK
}

// stats returns the proxy's status.
func (s *sidecarProcess) stats() (reply api.StatusReply) {
	s.t.Helper()
	s.ask("/v1/status", &reply)
	return reply
}

// scrape adds up the current values of the series whose names begin with name.
func (s *sidecarProcess) scrape(address, name string) (sum float64) {
	s.t.Helper()
	text := fetch(s.t, newClient(s.t), http.MethodGet, "http://"+address+"/metrics", nil, nil).body
	for line := range strings.Lines(text) {
		series, value := line, ""
		if i := strings.LastIndexByte(line, ' '); i >= 0 {
			series, value = line[:i], strings.TrimSpace(line[i:])
		}
		if !strings.HasPrefix(series, name) {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Error(err)
		}
		sum += x
	}
	return sum
}
