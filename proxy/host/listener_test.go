package host

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"tempomat/internal/testkit"
)

// dial connects n clients, which the server doesn't accept, and returns the last connection.
func dial(t *testing.T, network, at string, n int) (last net.Conn) {
	t.Helper()
	for range n {
		c, err := net.Dial(network, at)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		last = c
	}
	return last
}

// waitQueue waits until the queue has that length. The kernel may finish a handshake after dial has
// returned.
func waitQueue(t *testing.T, sockets *Sockets, d listener, want int) {
	t.Helper()
	for {
		q, ok := queueAt(sockets, d)
		got := q.queued
		if got == want && ok {
			return
		}
		if t.Context().Err() != nil || !ok || got > want {
			t.Fatalf("%d wait (%v), want %d", got, ok, want)
		}
		runtime.Gosched()
	}
}

// TestListenQueue counts connections that wait at a listener of this machine.
func TestListenQueue(t *testing.T) {
	sockets, err := OpenSockets()
	testkit.Must(t, err)
	defer sockets.Close()
	for _, c := range []struct{ name, network, listen, url string }{
		{"exact", "tcp", "127.0.0.1:0", "http://127.0.0.1:%d"},
		{"any address", "tcp4", "0.0.0.0:0", "http://127.0.0.1:%d"},
		{"any family", "tcp", "[::]:0", "http://127.0.0.1:%d"},
		{"IPv6", "tcp", "[::1]:0", "http://[::1]:%d"},
		{"localhost, IPv4", "tcp", "127.0.0.1:0", "http://localhost:%d"},
		{"localhost, IPv6", "tcp", "[::1]:0", "https://localhost:%d"},
		{"unix", "unix", filepath.Join(t.TempDir(), "a.sock"), "unix:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen(c.network, c.listen)
			if err != nil {
				t.Skip(err) // no IPv6
			}
			defer func() { _ = l.Close() }()
			u := &url.URL{Scheme: "unix", Path: c.listen}
			if c.network != "unix" {
				u, _ = url.Parse(fmt.Sprintf(c.url, l.Addr().(*net.TCPAddr).Port))
			}
			d, ok := listenerOf(u)
			if !ok {
				t.Fatalf("no listener of %s", u)
			}
			waitQueue(t, sockets, d, 0)
			dial(t, c.network, l.Addr().String(), 3)
			waitQueue(t, sockets, d, 3)
			if a, err := l.Accept(); err == nil {
				defer func() { _ = a.Close() }()
			}
			waitQueue(t, sockets, d, 2)
			_ = l.Close()
			if q, ok := queueAt(sockets, d); ok {
				t.Errorf("%d wait though no program listens", q.queued)
			}
		})
	}
}

// TestListenQueueClosest checks which of several sockets of a port are counted.
func TestListenQueueClosest(t *testing.T) {
	for name, c := range map[string]struct {
		listener string
		at       []string // the n-th has a queue of 10 to the power of n
		want     int      // negative: no socket fits
	}{
		"shared":             {"http://127.0.0.1:80", []string{"127.0.0.1:80", "127.0.0.1:80"}, 11},
		"exact first":        {"http://127.0.0.1:80", []string{"127.0.0.1:80", "0.0.0.0:80", "[::]:80"}, 1},
		"exact last":         {"http://127.0.0.1:80", []string{"[::]:80", "0.0.0.0:80", "127.0.0.1:80"}, 100},
		"own family":         {"http://127.0.0.1:80", []string{"[::]:80", "0.0.0.0:80"}, 10},
		"both families":      {"http://127.0.0.1:80", []string{"[::]:80"}, 1},
		"not IPv4 for IPv6":  {"http://[::1]:80", []string{"0.0.0.0:80"}, -1},
		"another address":    {"http://127.0.0.1:80", []string{"127.0.0.2:80", "192.0.2.1:80"}, -1},
		"another port":       {"http://127.0.0.1:80", []string{"127.0.0.1:8080"}, -1},
		"the scheme's port":  {"https://127.0.0.1", []string{"127.0.0.1:80", "127.0.0.1:443"}, 10},
		"localhost, exact":   {"http://localhost", []string{"[::]:80", "127.0.0.1:80"}, 10},
		"localhost, any one": {"http://localhost", []string{"[::1]:80"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			u, _ := url.Parse(c.listener)
			d, ok := listenerOf(u)
			if !ok {
				t.Fatal("no listener")
			}
			var q queue
			best, queued := fitsNot, 1
			for _, at := range c.at {
				a := netip.MustParseAddrPort(at)
				s := Socket{Address: a.Addr(), Port: a.Port(), Queued: uint32(queued)}
				q.add(s, d.fit(s), &best)
				queued *= 10
			}
			if got := q.queued; (best > fitsNot) != (c.want >= 0) || got != max(0, c.want) {
				t.Errorf("%d wait, want %d", got, c.want)
			}
		})
	}
}

func TestSameFile(t *testing.T) {
	for bound, want := range map[string]bool{
		"/run/site/a.sock": true, "/var/run/site/a.sock": true, "a.sock": true, "/run/b.sock": false, "\x00a.sock": false, "": false,
	} {
		testkit.Same(t, want, sameFile([]byte(bound), "/run/site/a.sock"), "%q", bound)
	}
}

// TestDoorAt parses addresses of php-fpm's listen.
func TestDoorAt(t *testing.T) {
	for text, want := range map[string]string{
		"/run/php/php8.2-fpm.sock": "/run/php/php8.2-fpm.sock [] 0",
		"9000":                     " [] 9000",
		"127.0.0.1:9000":           " [127.0.0.1] 9000",
		"[::1]:9000":               " [::1] 9000",
		"[::]:9000":                " [] 9000",
		"*:9000":                   " [] 9000",
		"localhost:9000":           " [127.0.0.1 ::1] 9000",
		"":                         "", "0": "", "70000": "", "php.example:9000": "", "127.0.0.1": "", "a b:1": "", "[::1": "",
	} {
		got := ""
		if d, ok := listenerAt(text); ok {
			got = fmt.Sprint(d.name, " ", d.addresses, " ", d.port)
		}
		testkit.Same(t, want, got, "%q", text)
	}
}

// TestListeners finds this process once for each of its listening sockets, and no socket on another
// port.
func TestListeners(t *testing.T) {
	var ports []int
	var want []string
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // a machine without IPv6
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		want = append(want, l.Addr().String())
	}
	var found []string
	for _, l := range Listeners(ports...) {
		if l.Process == os.Getpid() && l.Program == "host.test" {
			found = append(found, l.Address.String())
		}
	}
	slices.Sort(want)
	if slices.Sort(found); !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if all := Listeners(); len(all) < len(want) {
		t.Errorf("all are %v", all)
	}
}
