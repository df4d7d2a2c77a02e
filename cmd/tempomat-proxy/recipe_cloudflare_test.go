//go:build world

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"tempomat/internal/testkit"
)

// cloudflare imitates the documented behaviour of Cloudflare: the addresses from which it connects, its headers about
// visitors, and its list of networks.
type cloudflare struct {
	address atomic.Value // address of its server, as a string
	list    atomic.Value // content of ips-v4
}

// installBehindCloudflare makes visitors use Cloudflare.
func installBehindCloudflare(m *machine) {
	installModPHP(m)
	c := &cloudflare{}
	c.address.Store("127.0.0.3")
	c.list.Store("192.0.2.0/24\n127.0.0.3/32")
	m.cloudflare = c
	m.comesTo("443", m.tlsServer(c.edge(m.ports["80"])))
	lists := http.NewServeMux()
	lists.HandleFunc("/ips-v4", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.list.Load()) })
	lists.HandleFunc("/ips-v6", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "2001:db8::/32") })
	m.write(".curlrc", testkit.ReadFile(m.t, m.path(".curlrc"))+"connect-to = \"www.cloudflare.com:443:127.0.0.1:"+m.tlsServer(lists)+"\"\n")
}

// tlsServer starts a TLS server and returns its port.
func (m *machine) tlsServer(h http.Handler) string {
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{m.key}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	m.t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// edge returns a handler that forwards requests to the site.
func (c *cloudflare) edge(port string) http.Handler {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		address, _ := c.address.Load().(string)
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}}
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		visitor, _, _ := net.SplitHostPort(r.In.RemoteAddr)
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "origin"
		r.Out.Header = r.In.Header.Clone()
		for _, name := range []string{"CF-Connecting-IP", "X-Forwarded-Proto"} { // also in the spelling that a dishonest visitor uses
			delete(r.Out.Header, name)
		}
		said := append(r.In.Header["X-Forwarded-For"], visitor)
		r.Out.Header["X-Forwarded-For"] = []string{strings.Join(said, ", ")}
		r.Out.Header.Set("Cf-Connecting-Ip", visitor)
		r.Out.Header.Set("Cf-Visitor", `{"scheme":"https"}`)
		r.Out.Header.Set("X-Forwarded-Proto", "https")
	}}
}

// cloudflareMoves makes Cloudflare connect from another network, which is trusted after the list has been fetched. After
// that, it has the machine fetch an invalid list.
func cloudflareMoves(m *machine) {
	m.t.Helper()
	c, v := m.cloudflare, m.visitor("https")
	remote := func() string { address, _ := v.told(v.pretending())["REMOTE_ADDR"].(string); return address }
	c.address.Store("127.0.0.4")
	testkit.Same(m.t, "127.0.0.4", remote(), "PHP is told, of an address that isn't in the list")
	const daily = "/etc/cron.daily/tempomat-cloudflare"
	list := m.path("/etc/tempomat/cloudflare.txt")
	for _, broken := range []string{"<html>\n<h1>503</h1>", "0.0.0.0/0"} {
		before := testkit.ReadFile(m.t, list)
		c.list.Store(broken)
		script := exec.CommandContext(m.t.Context(), m.path(daily))
		script.Env = append(testkit.Environment(), m.env()...)
		if out, err := script.CombinedOutput(); err == nil || !strings.Contains(string(out), "trustedProxies: "+strings.Fields(broken)[0]) {
			m.t.Errorf("the script takes %q for a list: %v %s", broken, err, out)
		}
		if after, err := os.ReadFile(list); err != nil || string(after) != before {
			m.t.Errorf("the list is now %q, %v", after, err)
		}
	}
	c.list.Store("127.0.0.4/32")
	m.shell(daily)
	m.tempomat.Stderr.Await(m.t, 0, reloaded)
	testkit.Eventually(m.t, "Apache has read the new list", func() bool { return remote() == visitorAddress })
	direct := m.visitor("http")
	testkit.Same(m.t, visitorAddress, direct.told(direct.pretending())["REMOTE_ADDR"], "PHP is told, of a visitor who comes past Cloudflare")
}
