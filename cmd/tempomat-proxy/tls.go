package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/certificates"
	"tempomat/proxy/front"
	"tempomat/proxy/handover"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry/metrics"
)

// encryption holds the certificates and the configuration of TLS connections.
type encryption struct {
	log    *zap.Logger
	store  *certificates.Store
	issuer *certificates.Issuer // nil without tls.acme
	config *tls.Config
	begun  *config.Config // the configuration at the start
}

// newEncryption makes an encryption without certificates.
func newEncryption(log *zap.Logger) *encryption {
	return &encryption{log: log, store: certificates.New(log)}
}

// begin reads the certificates, and prepares ACME for the ports of the sockets.
func (e *encryption) begin(c *config.Config, sockets []handover.Socket) error {
	e.begun = c
	if len(c.TLS.ACME.Hosts) == 0 {
		e.config = e.store.Config(nil)
		return e.load(c)
	}
	o := certificates.Authority{
		Hosts: c.TLS.ACME.Hosts, Directory: c.TLS.ACME.Directory,
		Storage: filepath.Join(filepath.Dir(cmp.Or(c.State, config.Default().State)), "acme"),
		Log:     proxy.Capped(e.log).Named("acme"),
	}
	for _, s := range sockets {
		l, err := entryOf(s, c.Listen)
		at, isTCP := s.Addr().(*net.TCPAddr)
		switch {
		case err != nil || !isTCP || l.ProxyProtocol:
		case l.TLS && o.TLS.Port == 0:
			o.TLS = *at
		case !l.TLS && o.HTTP.Port == 0:
			o.HTTP = *at
		}
	}
	issuer, err := certificates.NewIssuer(o)
	if err != nil {
		return fmt.Errorf("tls.acme: %w", err)
	}
	e.issuer = issuer
	e.config = e.store.Config(issuer)
	return e.load(c)
}

// hasTLS reports whether TLS is served on any address.
func hasTLS(c *config.Config) bool {
	return slices.ContainsFunc(c.Listen, func(l config.Listener) bool { return l.TLS })
}

// waits reports whether new certificates aren't used until a restart, because a change of TLS needs the restart.
func (e *encryption) waits(c *config.Config) bool {
	return hasTLS(c) != hasTLS(e.begun) || !slices.Equal(c.TLS.ACME.Hosts, e.begun.TLS.ACME.Hosts)
}

// load reads the certificates. If they aren't used until a restart, load only checks them. If some can't be read, it
// logs the error, and the others are served. If none can be read, it returns an error, and the previous ones are
// served.
func (e *encryption) load(c *config.Config) error {
	x := e
	if e.waits(c) {
		x = newEncryption(zap.NewNop())
	}
	fatal, err := x.read(c)
	if err != nil && !fatal {
		e.log.Error("certificates can't be read", zap.Error(err))
		err = nil
	}
	return err
}

// read is like load, but returns all errors. fatal is true if none of the files can be used, unless the program starts
// with ACME.
func (e *encryption) read(c *config.Config) (fatal bool, err error) {
	err = e.store.Load(sources(c.TLS.Certificates))
	if errors.Is(err, certificates.ErrUnusable) && (e.store.First() != nil || len(c.TLS.ACME.Hosts) == 0) {
		return true, fmt.Errorf("tls.certificates: %w", err)
	}
	return false, err
}

func sources(all []config.CertificateFiles) (s []certificates.Source) {
	for _, f := range all {
		s = append(s, certificates.Source{Certificate: f.Certificate, Key: f.Key, Path: f.Path})
	}
	return s
}

// run watches the files and renews ACME's certificates until the context ends.
func (e *encryption) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if e.issuer != nil {
		all.Go(func() { e.issuer.Run(ctx) })
	}
	e.store.Run(ctx)
}

// challenge answers the request of an ACME authority. It returns false for any other request.
func (e *encryption) challenge(w http.ResponseWriter, r *http.Request) bool {
	return e.issuer != nil && e.issuer.Challenge(w, r)
}

// states are the states of all certificates.
func (e *encryption) states() []certificates.State {
	states := e.store.States()
	if e.issuer != nil {
		states = append(states, e.issuer.States()...)
	}
	return states
}

// status lists the certificates as the admin API shows them.
func (e *encryption) status() (all []api.Certificate) {
	for _, s := range e.states() {
		all = append(all, api.Certificate{File: s.Certificate, Expires: s.Expires, Fault: s.Fault})
	}
	return all
}

// entrances makes an entrance for each socket, with the options of its entry in listen.
func (s *sidecar) entrances(sockets []handover.Socket, c *config.Config) ([]proxy.Entrance, error) {
	all := make([]proxy.Entrance, len(sockets))
	for i, socket := range sockets {
		l, err := entryOf(socket, c.Listen)
		if err != nil {
			return nil, err
		}
		all[i] = proxy.Entrance{Listener: host.Patient(socket.Listener, s.connections.full), Proxied: l.ProxyProtocol, Redirect: l.Redirect}
		if l.TLS {
			all[i].TLS = s.encryption.config
		}
	}
	return all, nil
}

// entryOf returns the entry of listen to which a socket belongs. A socket that systemd passed may belong to none. Such
// a socket gets the options of the first entry. If the entries have different options, entryOf returns an error.
func entryOf(socket handover.Socket, entries []config.Listener) (config.Listener, error) {
	i := slices.IndexFunc(entries, func(l config.Listener) bool { return isAlike(l.Address, socket) })
	if i >= 0 {
		return entries[i], nil
	}
	first := entries[0]
	for _, l := range entries {
		if l.Address = first.Address; l != first {
			return first, fmt.Errorf("systemd passed the socket %s (LISTEN_FDS), but listen has no entry for it, and the entries of listen have different options. Add an entry for the socket", socket.Addr())
		}
	}
	return first, nil
}

// addresses returns the addresses of entries of listen.
func addresses(entries []config.Listener) (all []string) {
	for _, l := range entries {
		all = append(all, l.Address)
	}
	return all
}

// connStats counts the results of TLS handshakes and PROXY headers, and logs failures that an administrator can fix.
// Its methods may be called concurrently.
type connStats struct {
	log *zap.Logger // limits the rate of messages

	mu     sync.Mutex // guards the fields below
	counts map[front.Step]map[string]uint64
}

func newConnStats(c *config.Config, log *zap.Logger) *connStats {
	b := &connStats{log: proxy.Capped(log), counts: make(map[front.Step]map[string]uint64)}
	b.expect(front.StepHandshake, hasTLS(c))
	b.expect(front.StepProxied, slices.ContainsFunc(c.Listen, func(l config.Listener) bool { return l.ProxyProtocol }))
	return b
}

// expect adds the counters of a step that can occur, so they are reported even while they are 0.
func (b *connStats) expect(step front.Step, is bool) {
	if !is {
		return
	}
	b.counts[step] = make(map[string]uint64)
	for _, r := range step.Results() {
		b.counts[step][string(r)] = 0
	}
}

// note counts the result of a step.
func (b *connStats) note(step front.Step, result front.Result, remote string, err error) {
	b.mu.Lock()
	b.counts[step][string(result)]++
	b.mu.Unlock()
	if result == front.ResultOK {
		return
	}
	fields := []zap.Field{zap.String("client", remote), zap.String("result", string(result)), zap.Error(err)}
	switch result {
	case front.ResultUntrusted:
		b.log.Warn("closed a connection, because only trusted proxies may use the PROXY protocol and this client isn't in trustedProxies", fields...)
	case front.ResultMalformed:
		b.log.Warn("closed a connection from a trusted proxy, because it did not begin with a PROXY protocol header", fields...)
	case front.ResultCertificate:
		b.log.Warn("a TLS handshake failed, because there is no certificate", fields...)
	default: // scanners cause these all the time
		b.log.Debug("a connection ended before its first request", append(fields, zap.String("step", string(step)))...)
	}
}

// tell returns the counts.
func (b *connStats) tell() metrics.ConnStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return metrics.ConnStats{Handshakes: maps.Clone(b.counts[front.StepHandshake]), Proxied: maps.Clone(b.counts[front.StepProxied])}
}
