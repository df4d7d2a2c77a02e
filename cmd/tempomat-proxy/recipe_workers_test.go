//go:build world

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// phpWorkers is the number of php-fpm's workers in Debian's configuration.
const phpWorkers = 5

// findsPHPFPM sends more requests at a time than php-fpm has workers. tempomat must take their number from php-fpm's
// configuration. php-fpm begins with two workers and starts others as needed while connections wait, so waiting
// connections don't prove that there are fewer.
func findsPHPFPM(m *machine) {
	m.t.Helper()
	const page = "/var/www/html/slow.php"
	m.write(page, "<?php header('Cache-Control: no-store'); usleep(60000); echo 'slow';")
	defer func() { m.must(os.Remove(m.path(page))) }()
	testkit.Eventually(m.t, "tempomat has found php-fpm's workers", func() bool { return m.workers() >= phpWorkers })
	ctx, end := context.WithCancel(m.t.Context())
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() { m.asks(ctx, fmt.Sprintf("127.0.1.%d", i+1), "/slow.php") })
	}
	requests := m.tempomat.stats().Counters["requests"]
	testkit.Eventually(m.t, "all have asked several times", func() bool {
		time.Sleep(50 * time.Millisecond)
		if n := m.workers(); n > 0 && n < phpWorkers { // 0: tempomat doesn't know the number yet
			m.t.Errorf("%s.md: tempomat takes php-fpm to have %d workers", m.page.name, n)
		}
		return m.tempomat.stats().Counters["requests"] > requests+100
	})
	end()
	all.Wait()
}

// workers returns the number of php-fpm's workers according to tempomat. It may be too high if other workers also run
// on this machine, or while a short request waits for php-fpm to accept it, which shows whether there are more workers.
func (m *machine) workers() int {
	m.t.Helper()
	var gate api.GateReply
	if status := m.tempomat.ask("/v1/gate", &gate); status != http.StatusOK {
		m.t.Fatalf("%s.md: status %d of the gate", m.page.name, status)
	}
	if alone := strings.Contains(gate.WorkersBy, `pool "www"`); alone && gate.Workers != max(phpWorkers, gate.Busy) {
		m.t.Errorf("%s.md: tempomat takes php-fpm to have %d workers, by %s", m.page.name, gate.Workers, gate.WorkersBy)
	}
	return gate.Workers
}

// asks makes a visitor request a page again and again, until the context ends.
func (m *machine) asks(ctx context.Context, visitor, path string) {
	v := m.visitorFrom(visitor, "http")
	for {
		status, body, err := v.try(ctx, path)
		if ctx.Err() != nil {
			return
		}
		if err != nil || body != "slow" {
			m.t.Errorf("%s is answered %d %q, %v", visitor, status, body, err)
			return
		}
	}
}

// try requests a page, from any goroutine.
func (v *recipeVisitor) try(ctx context.Context, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.scheme+"://www.example.org"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	answer, err := v.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }() // the body was read
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// crowdWaits sends more requests at a time than Debian's Apache may have threads, with Apache both in front of tempomat
// and behind it. These requests must not prevent pages from being computed.
func crowdWaits(m *machine) {
	m.t.Helper()
	const crowd, page = 300, "/var/www/html/slow.php"
	m.write(page, "<?php header('Cache-Control: no-store'); usleep(10000); echo 'slow';")
	defer func() { m.must(os.Remove(m.path(page))) }()
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			v := m.visitorFrom(fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250), "https")
			switch status, body, err := v.try(m.t.Context(), "/slow.php"); {
			case err == nil && status == http.StatusOK && body == "slow":
				served.Add(1)
			case err != nil || status != http.StatusServiceUnavailable: // the most requests that may wait already wait
				m.t.Errorf("somebody of the crowd is answered %d %q, %v", status, body, err)
			}
		})
	}
	all.Wait()
	if n := served.Load(); n < crowd*2/3 {
		m.t.Errorf("%d of %d were served", n, crowd)
	}
}
