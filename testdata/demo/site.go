package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// siteCommand makes the program run only the demo's backend. The backend is in a separate process, so the goroutines
// that burn CPU time don't delay the visitors' goroutines.
const siteCommand = "site"

// siteWorkers is the number of pages that the backend generates at a time. Other requests are served in the order in
// which they arrive, as in Apache's queue.
const siteWorkers = 16

// The CPU time that the demo's pages cost.
const (
	lightPage = 20 * time.Millisecond
	heavyPage = 400 * time.Millisecond
)

// serveSite runs the backend. It ends when its standard input ends.
func serveSite(ctx context.Context) error {
	runtime.GOMAXPROCS(siteWorkers + runtime.NumCPU()) // the kernel divides the CPUs, not this process
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: demoSite(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	fmt.Println(l.Addr())
	if err := s.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// demo is a site and the proxy in front of it.
type demo struct {
	at  string // the proxy's URL
	dir string // contains the proxy's admin socket
	end func() error
}

// startDemo starts the site and the proxy. The bursts are small, so a client gets into debt within seconds, not minutes.
func startDemo(ctx context.Context, program, listen, mode string) (d *demo, err error) {
	dir, err := os.MkdirTemp("", "tempomat-demo-")
	if err != nil {
		return nil, err
	}
	ends := []func() error{func() error { return os.RemoveAll(dir) }}
	d = &demo{dir: dir, end: func() (err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			if e := ends[i](); err == nil {
				err = e
			}
		}
		return err
	}}
	defer func() {
		if err != nil {
			_ = d.end() // the first error is more informative
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	site := exec.CommandContext(context.WithoutCancel(ctx), self, siteCommand)
	hold, err := site.StdinPipe() // closes when this process ends, however it ends
	if err != nil {
		return nil, err
	}
	backend, err := startAndFind(site, site.StdoutPipe, `127\.0\.0\.1:\d+`)
	if err != nil {
		return nil, err
	}
	ends = append(ends, func() error { _ = hold.Close(); return site.Wait() })
	file := filepath.Join(dir, "tempomat.yaml")
	config := fmt.Sprintf("listen: %q\nbackend: http://%s\nadmin: {listen: %q}\nstate: %q\nthrottle: {mode: %s}\nlog: {level: info, access: off}\n"+
		"robots: {refresh: off}\nclasses: {slash32: {burst: 2s}, slash24: {burst: 2s}, slash16: {burst: 2s}, userAgent: {burst: 2s}}\ntimeouts: {drain: 0s}\n",
		listen, backend, "unix:"+dir+"/admin.sock", dir+"/state", mode)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	proxy := exec.CommandContext(context.WithoutCancel(ctx), program, "-config", file)
	proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C goes to this program, which then ends the proxy
	at, err := startAndFind(proxy, proxy.StderrPipe, `"listen":\["(127\.0\.0\.1:\d+)"`)
	if err != nil {
		return nil, err
	}
	d.at = "http://" + at
	ends = append(ends, func() error { _ = proxy.Process.Signal(syscall.SIGTERM); return proxy.Wait() })
	return d, nil
}

// startAndFind starts a program and returns the text in its output that matches a pattern. The rest of the
// output is read until its end.
func startAndFind(c *exec.Cmd, pipe func() (io.ReadCloser, error), pattern string) (string, error) {
	out, err := pipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	lines, said := bufio.NewScanner(out), ""
	for lines.Scan() {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return found[len(found)-1], nil
		}
		said += lines.Text() + "\n"
	}
	return "", fmt.Errorf("%s did not start: %v\n%s", c.Path, c.Wait(), said)
}

// show runs the demo until the context ends, and prints suggestions for what to try.
func show(ctx context.Context, program, listen string) error {
	d, err := startDemo(ctx, program, listen, "fair")
	if err != nil {
		return err
	}
	fmt.Printf(`A demo site behind the proxy, at %s

  /        light: %v of CPU time
  /heavy   heavy: %v of CPU time
  /static  a file

Try:

  curl %[1]s/                                      a page, at once
  for i in $(seq 20); do curl -so /dev/null %[1]s/heavy & done
                                                       a crawler: only the crawler waits
  curl -H 'X-Forwarded-For: 198.51.100.7' %[1]s/   another client, at the same time: at once
  %[4]s --socket unix:%[5]s/admin.sock
                                                       what each client has used, and how long it waited

Press Ctrl-C to stop.
`, d.at, lightPage, heavyPage, strings.TrimSuffix(program, "proxy")+"doctor", d.dir)
	<-ctx.Done()
	return d.end()
}

// demoSite returns the demo's backend. Its pages burn real CPU time. /page?ms=N burns N milliseconds.
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
			fmt.Fprintf(w, "<!DOCTYPE html><title>%s</title><link rel=stylesheet href=/style.css><img src=/logo.svg alt=\"\"><h1>A %s page</h1><p>%v of CPU time went into %x.</p>\n"+
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

// burn uses CPU time, however long that takes next to other programs.
func burn(rounds int) (sum [sha256.Size]byte) {
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

// roundsPerMillisecond returns how many rounds burn makes in a millisecond of CPU time. It is the maximum of
// several tries, because other programs may use the CPU during some of them.
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
