package setup

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Local asks this machine's own sites, and starts its programs.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, argv ...string) (string, error) {
	text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // the commands of this package
	return string(text), err
}

// Terminate implements Runner.
func (Local) Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// Probe implements Prober. The certificate is not looked at: it is the site's own affair.
func (Local) Probe(ctx context.Context, p Probe) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	scheme := "http"
	if p.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/", scheme, p.Host), nil)
	if err != nil {
		return 0, err
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)))
		},
	}
	defer t.CloseIdleConnections()
	res, err := t.RoundTrip(req) // follows no redirect
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
