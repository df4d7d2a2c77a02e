package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"tempomat/limiter/limitertest"
	"tempomat/proxy/admin/api"
)

// findsPHPFPM has more people come at a time than php-fpm has workers, whose number is found by
// its configuration. php-fpm begins with two and starts the others as they are needed, while
// connections wait: that does not prove that it has fewer.
func findsPHPFPM(m *machine) {
	m.t.Helper()
	const debians = 5
	const page = "/var/www/html/slow.php"
	m.write(page, "<?php header('Cache-Control: no-store'); usleep(60000); echo 'slow';")
	defer func() { m.must(os.Remove(m.path(page))) }()
	m.knowsWorkers(debians)
	ctx, end := context.WithCancel(m.t.Context())
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() { m.asks(ctx, fmt.Sprintf("127.0.1.%d", i+1), "/slow.php") })
	}
	requests := m.tempomat.stats().Counters["requests"]
	limitertest.Eventually(m.t, "all have asked several times", func() bool {
		m.knowsWorkers(debians)
		return m.tempomat.stats().Counters["requests"] > requests+100
	})
	end()
	all.Wait()
}

// knowsWorkers checks how many workers tempomat takes php-fpm to have. Where others run
// on this machine, too, it may be more.
func (m *machine) knowsWorkers(n int) {
	m.t.Helper()
	var gate api.GateReply
	if status := m.tempomat.ask("/v1/gate", &gate); status != http.StatusOK {
		m.t.Fatalf("%s.md: status %d of the gate", m.page.name, status)
	}
	alone := strings.Contains(gate.WorkersBy, `pool "www"`)
	if gate.Workers < n || alone && gate.Workers > n {
		m.t.Errorf("%s.md: tempomat takes php-fpm to have %d workers, by %s", m.page.name, gate.Workers, gate.WorkersBy)
	}
}

// asks has a visitor ask for a page again and again, until the context ends.
func (m *machine) asks(ctx context.Context, visitor, path string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(visitor)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+m.ports["80"])
	}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://www.example.org"+path, http.NoBody)
		if err != nil {
			m.t.Error(err)
			return
		}
		answer, err := client.Do(request)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.t.Error(err)
			return
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if ctx.Err() == nil && (err != nil || string(body) != "slow") {
			m.t.Errorf("%s is answered %s %q, %v", visitor, answer.Status, body, err)
			return
		}
	}
}
