package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTLSFile reads both forms of what listen and tls.certificates have.
func TestTLSFile(t *testing.T) {
	c, err := Load("../testdata/config/good/tls.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	listen := []Listener{
		{Address: ":80", Redirect: true}, {Address: ":443", TLS: true}, {Address: ":8443", TLS: true, ProxyProtocol: true},
		{Address: "unix:/run/tempomat/proxy.sock"},
	}
	if diff := cmp.Diff(listen, c.Listen); diff != "" {
		t.Errorf("listen (-want +got):\n%s", diff)
	}
	tls := TLS{
		Certificates: []CertificateFiles{{Path: "/etc/letsencrypt/live"}, {Certificate: "/etc/ssl/a.pem", Key: "/etc/ssl/private/a.key"}},
		ACME: ACME{
			Hosts: []string{"site.example", "www.site.example"}, Directory: "https://acme.internal.example:14000/dir",
		},
	}
	if diff := cmp.Diff(tls, c.TLS); diff != "" {
		t.Errorf("tls (-want +got):\n%s", diff)
	}
}
