package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// SiteCommand has the program be the demo's backend and nothing else: a
// process of its own, as a page that burns CPU would have the proxy's goroutines
// wait for it else.
const SiteCommand = "demo-site"

// siteWorkers is how many pages the backend makes at a time; others wait, first
// come, first served, as in Apache's queue.
const siteWorkers = 16

// What the demo's pages cost, in CPU time.
const (
	LightPage = 20 * time.Millisecond
	HeavyPage = 400 * time.Millisecond
)

// StartSite starts the backend and returns its address, and what ends it.
func StartSite(ctx context.Context) (at string, closeSite func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	site := exec.CommandContext(context.WithoutCancel(ctx), self, SiteCommand) //nolint:gosec // this program
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

// ServeSite is the backend's process. It ends with its input.
func ServeSite(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	runtime.GOMAXPROCS(siteWorkers + runtime.NumCPU()) // the kernel shares the CPUs out, not this process
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: site(), ReadHeaderTimeout: 10 * time.Second}
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

// site is the demo's backend. Its pages burn real CPU time; /page?ms=N
// burns N milliseconds.
func site() http.Handler {
	mux := http.NewServeMux()
	workers := make(chan struct{}, siteWorkers)
	page := func(name string, cost time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			workers <- struct{}{}
			sum := burn(cost)
			<-workers
			if _, err := r.Cookie("session"); err != nil {
				http.SetCookie(w, &http.Cookie{Name: "session", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // over plain HTTP, to this machine
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, "<!DOCTYPE html><title>%s</title><link rel=stylesheet href=/style.css><img src=/logo.svg alt=\"\"><h1>A %s page</h1><p>%v of CPU went into %x.</p>\n"+
				`<p><a href="/">light</a> <a href="/heavy">heavy</a> <a href="/static">static</a></p>`+"\n", name, name, cost, sum[:4])
		}
	}
	mux.HandleFunc("/{$}", page("light", LightPage))
	mux.HandleFunc("/heavy", page("heavy", HeavyPage))
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
