//go:build world

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// recipeVisitor is a user on another machine.
type recipeVisitor struct {
	*machine
	client *http.Client
	scheme string
}

func (m *machine) visitor(scheme string) *recipeVisitor { return m.visitorFrom(visitorAddress, scheme) }

// visitorFrom returns a visitor with that address.
func (m *machine) visitorFrom(address, scheme string) *recipeVisitor {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	port := m.gate(map[string]string{"http": "80", "https": "443"}[scheme])
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		},
		TLSClientConfig: &tls.Config{RootCAs: m.authority, MinVersion: tls.VersionTLS12},
	}
	return &recipeVisitor{m, newClientOf(m.t, transport), scheme}
}

func (v *recipeVisitor) get(path string, h http.Header) answer {
	v.t.Helper()
	return fetch(v.t, v.client, http.MethodGet, v.scheme+"://www.example.org"+path, h, nil)
}

// pretended is the address that a dishonest visitor claims to have.
const pretended = "198.51.100.66"

// pretending returns the headers of a visitor who claims to have a different address.
func (v *recipeVisitor) pretending() http.Header {
	h := http.Header{}
	other := map[string]string{"http": "https", "https": "http"}[v.scheme]
	for name, value := range map[string]string{
		"X-Forwarded-For": pretended, "Forwarded": "for=" + pretended + ";proto=" + other, "X-Real-IP": pretended,
		"CF-Connecting-IP": pretended, "True-Client-IP": pretended, "Client-IP": pretended, "X_Forwarded_For": pretended,
		"X-Forwarded-Proto": other, "X-Forwarded-Ssl": "on", "X-Forwarded-Host": "evil.example", "X-Forwarded-Port": "666",
		"X-Forwarded-Server": "evil.example", "X-Forwarded-Prefix": "/evil", "Proxy": "evil.example",
	} {
		h[name] = []string{value} // keeps the spelling of the name
	}
	return h
}

// cannotPretend compares the page for an honest visitor with the page for a dishonest one.
func (v *recipeVisitor) cannotPretend(path string) {
	v.t.Helper()
	honest, liar := v.get(path, nil), v.get(path, v.pretending())
	if honest.StatusCode != http.StatusOK || !strings.Contains(honest.body, visitorAddress) || liar.body != honest.body {
		v.t.Errorf("%s.md: %s shows %d\n%s, to who pretends\n%s", v.page.name, path, honest.StatusCode, honest.body, liar.body)
	}
	if _, known := v.tempomat.account("slash32", visitorAddress); !known {
		v.t.Errorf("%s.md: tempomat does not know who asked", v.page.name)
	}
	if _, known := v.tempomat.account("slash32", pretended); known {
		v.t.Errorf("%s.md: tempomat believes who pretends", v.page.name)
	}
}

// told returns the data that PHP gets about a request.
func (v *recipeVisitor) told(h http.Header) (server map[string]any) {
	v.t.Helper()
	a := v.get("/spy.php", h)
	if err := json.Unmarshal([]byte(a.body), &server); err != nil {
		v.t.Fatalf("%s.md: %s %s: %v", v.page.name, a.Status, a.body, err)
	}
	return server
}

// cannotPretendToPHP looks for false claims in the data that PHP gets.
func (v *recipeVisitor) cannotPretendToPHP() {
	v.t.Helper()
	want := map[string]any{
		"REMOTE_ADDR": visitorAddress, "HTTP_HOST": "www.example.org", "HTTP_X_FORWARDED_PROTO": v.scheme,
		"REQUEST_SCHEME": v.scheme, "SERVER_PORT": "80", "HTTPS": nil,
	}
	if v.scheme == "https" {
		want["SERVER_PORT"], want["HTTPS"] = "443", "on"
	}
	for _, h := range []http.Header{nil, v.pretending()} {
		server := v.told(h)
		for name, value := range want {
			if server[name] != value {
				v.t.Errorf("%s.md: PHP is told %s=%v, want %v", v.page.name, name, server[name], value)
			}
		}
		for name, value := range server {
			text, _ := value.(string)
			if strings.Contains(text, pretended) || strings.Contains(text, "evil") || text == "666" {
				v.t.Errorf("%s.md: PHP is told %s=%s", v.page.name, name, text)
			}
		}
	}
}

// isRedirected requests a directory without its slash. The server's own redirect must lead to the address that the
// visitor used, not to the address on which the server listens.
func (v *recipeVisitor) isRedirected() {
	v.t.Helper()
	a := v.get("/dir", nil)
	to, err := a.Location()
	if want := v.scheme + "://www.example.org/dir/"; err != nil || a.StatusCode != http.StatusMovedPermanently || to.String() != want {
		v.t.Errorf("%s.md: redirected to %q, %v, want %s", v.page.name, a.Header["Location"], err, want)
	}
}
