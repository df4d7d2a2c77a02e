package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/metrics"
)

// serveAdmin serves tempomat-doctor (on unix) and browsers (on web) until the context ends. Either listener
// may be nil.
func (s *sidecar) serveAdmin(ctx context.Context, unix, web net.Listener, ready func() error) {
	admin := admin.New(admin.Options{
		Ledger:    s.limiter,
		Now:       time.Now,
		Status:    s.status,
		Gate:      s.limiter.GateState,
		Proof:     func(k limiter.Key) string { return s.handler.Policy().Robots.ProofOf(k) },
		Kernel:    s.kernel,
		Share:     s.sharing.Reply,
		Ready:     ready,
		Reload:    s.reload,
		Waiting:   func() []string { return s.loaded.Load().waiting },
		Inside:    s.shown(),
		Inspector: s.inspector,
		History:   s.pastHours(),
		Access:    &s.access,
		Log:       s.logs.log,
	})
	shut := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := admin.Shutdown(limit); err != nil {
			s.logs.log.Debug("closed admin API connections that did not end in time", zap.Error(err))
		}
	})
	defer shut()
	var all sync.WaitGroup
	defer all.Wait()
	if web != nil {
		all.Go(func() { s.logEnd(admin.ServeWeb(web)) })
	}
	if unix != nil {
		all.Go(func() { s.logEnd(admin.Serve(unix)) })
	}
}

func (s *sidecar) logEnd(err error) {
	if err != nil {
		s.logs.log.Error("the admin API failed", zap.Error(err))
	}
}

// topHolders is the number of addresses and networks, those with the most connections, that the status lists.
const topHolders = 10

// instance describes this proxy to the other instances of its fleet. They compare the description with their own.
func (s *sidecar) instance(now time.Time) api.Instance {
	c := s.loaded.Load()
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	i := api.Instance{
		Name: name, Socket: c.Admin.Listen, Admin: adminURL(c.Admin.Web), Release: version, Mode: c.Throttle.Mode, Sharing: c.Coordination.Kind, Secret: s.sharing.Fingerprint(),
		Classes: make(map[string]string), Now: float64(now.UnixMilli()) / 1000,
	}
	for _, class := range c.Classes {
		i.Classes[class.Name] = fmt.Sprintf("share %g, burst %s", class.Share, class.Burst)
	}
	return i
}

// adminURL returns the URL at which other machines reach the address in admin.web, or an empty string if they can't.
func adminURL(web string) string {
	host, port, err := net.SplitHostPort(web)
	if err != nil || host == "localhost" {
		return ""
	}
	at, _ := netip.ParseAddr(host)
	switch {
	case at.IsLoopback():
		return ""
	case host != "" && !at.IsUnspecified():
		return "http://" + web
	}
	all, _ := net.InterfaceAddrs() // on an error the list is empty, and the address counts as not reachable
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return "http://" + net.JoinHostPort(n.IP.String(), port)
		}
	}
	return ""
}

func (s *sidecar) status() api.StatusReply {
	return api.StatusReply{
		Instance:    s.instance(time.Now()),
		Release:     version,
		Uptime:      time.Since(s.started).Seconds(),
		Mode:        s.loaded.Load().Throttle.Mode,
		Held:        s.limiter.Held(),
		Buffer:      s.policies.spools.Stats(),
		Connections: s.connections.table.Stats(topHolders),
		Counters:    metrics.Counters(s.numbers()),

		Certificates: s.encryption.status(),
	}
}

// Limits of a token's length, in bytes. A shorter token could be guessed.
const (
	leastToken = 16
	mostToken  = 512
)

// openWeb opens the socket for browsers. If that fails, it returns nil, and the proxy runs without the
// dashboard.
func (s *sidecar) openWeb(ctx context.Context, c config.Admin) net.Listener {
	if c.Web == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Web)
	if err != nil {
		s.logs.log.Error("can't serve the dashboard over TCP", zap.String("admin.web", c.Web), zap.Error(err))
		return nil
	}
	s.logs.log.Info("serving the dashboard", zap.Stringer("at", l.Addr()))
	return l
}

// grant reads the token again. If the file is invalid, the old token stays valid. At the start there is no
// old token, so all requests are rejected.
func (s *sidecar) grant(c config.Admin) {
	token, err := readToken(c.Token)
	if err != nil {
		says := "the dashboard keeps its previous token"
		if !s.access.Granted() {
			says = "the dashboard rejects all requests until a reload finds a token"
		}
		s.logs.log.Error(says, zap.Error(err))
		return
	}
	s.access.Set(token, c.Hosts)
}

// readToken reads the token from its file and removes a line break at the end. If no file is configured, the token
// is empty.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := daemon.ReadSecret(file, mostToken+2) // the token and a line break
	if err != nil {
		return "", fmt.Errorf("admin.token: %w", err)
	}
	token := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("admin.token: %s: %w", file, err)
	}
	return token, nil
}

// checkToken returns an error if a token can't be sent in a header, or is short enough to be guessed.
func checkToken(token string) error {
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case len(token) < leastToken || len(token) > mostToken:
		return fmt.Errorf("has %d characters; %d to %d are allowed", len(token), leastToken, mostToken)
	case strings.ContainsFunc(token, odd):
		return errors.New("must be visible ASCII characters without spaces, on one line")
	}
	return nil
}
