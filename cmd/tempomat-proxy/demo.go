package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/handover"
)

// runDemo serves a site of its own, until the context ends: pages that burn
// real CPU, and the proxy in front of them with its defaults.
func runDemo(ctx context.Context, s source, stdout, stderr io.Writer) error {
	site, closeSite, err := startDemoSite(ctx)
	if err != nil {
		return err
	}
	defer closeSite()
	dir, err := os.MkdirTemp("", "tempomat-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s.adapt = func(c *config.Config) { adaptToDemo(c, site, dir) }
	c, err := s.load()
	if err != nil {
		return err
	}
	sockets, err := listenDemo(ctx, c)
	if err != nil {
		return err
	}
	car, err := newSidecar(c, s, stderr)
	if err != nil {
		return err
	}
	defer car.logs.output.Close()
	describeDemo(stdout, sockets[0].Addr(), c)
	signals := hear()
	defer signal.Stop(signals)
	return car.run(ctx, sockets, signals)
}

// adaptToDemo points the proxy at the demo's site, and makes the bursts small,
// so that a visitor runs into debt in seconds and not in minutes.
func adaptToDemo(c *config.Config, site, dir string) {
	c.Backend.URL = "http://" + site
	c.Admin.Listen = "unix:" + filepath.Join(dir, "admin.sock")
	c.State = filepath.Join(dir, "state")
	c.Robots.Refresh = "off" // nobody's robots come
	if slices.Equal(c.Listen, config.Default().Listen) {
		c.Listen = []config.Listener{{Address: "127.0.0.1:8888"}} // a demo is for this machine
	}
	for i := range c.Classes {
		c.Classes[i].Burst = min(c.Classes[i].Burst, 2*time.Second)
	}
}

// listenDemo takes another port where the usual one is taken.
func listenDemo(ctx context.Context, c *config.Config) ([]handover.Socket, error) {
	sockets, err := listen(ctx, addresses(c.Listen))
	if !errors.Is(err, syscall.EADDRINUSE) {
		return sockets, err
	}
	return listen(ctx, []string{"127.0.0.1:0"})
}

func describeDemo(w io.Writer, at net.Addr, c *config.Config) {
	_, port, _ := net.SplitHostPort(at.String())
	site := "http://127.0.0.1:" + port
	doctor := filepath.Join(filepath.Dir(os.Args[0]), "tempomat-doctor")
	fmt.Fprintf(w, `tempomat-proxy %s: a demo site behind the proxy, at %s

  /        light: %v of CPU
  /heavy   heavy: %v of CPU
  /static  a file

Each address may use %.2f CPUs steadily. Try:

  curl %s/                                      a page, at once
  for i in $(seq 20); do curl -so /dev/null %s/heavy & done
                                                       a crawler: only it waits
  curl -H 'X-Forwarded-For: 198.51.100.7' %s/   another client, at the same time: at once
  %s --socket %s
                                                       what each client used, and how long it waited

Ctrl-C ends it.

`, version, site, lightPage, heavyPage, c.Classes[0].Share*policy.CPUs(c), site, site, site, doctor, c.Admin.Listen)
}

// siteCommand has the program be the demo's backend and nothing else: a
// process of its own, as a page that burns CPU would have the proxy's goroutines
// wait for it else.
const siteCommand = "demo-site"

// siteWorkers is how many pages the backend makes at a time; others wait, first
// come, first served, as in Apache's queue.
const siteWorkers = 16

// What the demo's pages cost, in CPU time.
const (
	lightPage = 20 * time.Millisecond
	heavyPage = 400 * time.Millisecond
)

// startDemoSite starts the backend and returns its address, and what ends it.
func startDemoSite(ctx context.Context) (at string, closeSite func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	site := exec.CommandContext(context.WithoutCancel(ctx), self, siteCommand) //nolint:gosec // this program
	site.Stderr = os.Stderr
	hold, err := site.StdinPipe() // it ends when this does, however we end
	if err != nil {
		return "", nil, err
	}
	out, err := site.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := site.Start(); err != nil {
		return "", nil, fmt.Errorf("demo site: %w", err)
	}
	closeSite = func() {
		_ = hold.Close()
		_ = site.Wait() // how it ends is of no interest
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		closeSite()
		return "", nil, fmt.Errorf("demo site: %w", err)
	}
	return strings.TrimSpace(line), closeSite, nil
}

// serveDemoSite is the backend's process. It ends with its input.
func serveDemoSite(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	runtime.GOMAXPROCS(siteWorkers + runtime.NumCPU()) // the kernel shares the CPUs out, not this process
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: demoSite(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = s.Close()
	}()
	fmt.Fprintln(stdout, l.Addr())
	if err := s.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// demoSite is the demo's backend. Its pages burn real CPU time; /page?ms=N
// burns N milliseconds.
func demoSite() http.Handler {
	mux := http.NewServeMux()
	workers := make(chan struct{}, siteWorkers)
	speed := roundsPerMillisecond()
	page := func(name string, cost time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			workers <- struct{}{}
			sum := burn(int(cost.Milliseconds()) * speed)
			<-workers
			if _, err := r.Cookie("session"); err != nil {
				http.SetCookie(w, &http.Cookie{Name: "session", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // over plain HTTP, to this machine
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, "<!DOCTYPE html><title>%s</title><link rel=stylesheet href=/style.css><img src=/logo.svg alt=\"\"><h1>A %s page</h1><p>%v of CPU went into %x.</p>\n"+
				`<p><a href="/">light</a> <a href="/heavy">heavy</a> <a href="/static">static</a></p>`+"\n", name, name, cost, sum[:4])
		}
	}
	mux.HandleFunc("/{$}", page("light", lightPage))
	mux.HandleFunc("/heavy", page("heavy", heavyPage))
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.Atoi(r.FormValue("ms"))
		if err != nil || ms < 0 || ms > 10_000 {
			http.Error(w, "ms: a number from 0 to 10000", http.StatusBadRequest)
			return
		}
		page("page", time.Duration(ms)*time.Millisecond)(w, r)
	})
	mux.HandleFunc("/static", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a file\n")
	})
	mux.HandleFunc("/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		_, _ = io.WriteString(w, "body { font-family: sans-serif; margin: 2em }\n")
	})
	mux.HandleFunc("/logo.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" width="32" height="32"><circle cx="16" cy="16" r="14"/></svg>`)
	})
	return mux
}

// burn uses CPU time, however long that takes beside others.
func burn(rounds int) (sum [sha256.Size]byte) {
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

// roundsPerMillisecond is how many rounds burn makes in a millisecond of CPU time: the most of some
// tries, because other programs may have the CPU in one of them.
func roundsPerMillisecond() int {
	const tries, each, many = 20, time.Millisecond, 100
	most := 0
	for range tries {
		rounds := 0
		for end := time.Now().Add(each); time.Now().Before(end); rounds += many {
			burn(many)
		}
		most = max(most, rounds)
	}
	return most
}
