package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-proxy/internal/demo"
	"tempomat/config"
	"tempomat/proxy/handover"
)

// runDemo serves a site of its own, until the context ends: pages that burn
// real CPU, and the proxy before them with its defaults.
func runDemo(ctx context.Context, s source, stdout, stderr io.Writer) error {
	site, closeSite, err := demo.StartSite(ctx)
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
	tellDemo(stdout, sockets[0].Addr(), c)
	return car.run(ctx, sockets)
}

// adaptToDemo points the proxy at the demo's site, and makes the bursts small,
// so that a visitor runs into debt in seconds and not in minutes.
func adaptToDemo(c *config.Config, site, dir string) {
	c.Backend.URL = "http://" + site
	c.Admin.Listen = "unix:" + filepath.Join(dir, "admin.sock")
	c.State = filepath.Join(dir, "state")
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

func tellDemo(w io.Writer, at net.Addr, c *config.Config) {
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
                                                       a crawler: it waits, nobody else does
  curl -H 'X-Forwarded-For: 198.51.100.7' %s/   somebody else meanwhile: at once
  %s --socket %s
                                                       who used what, and who waits

Ctrl-C ends it.

`, version, site, demo.LightPage, demo.HeavyPage, c.Classes[0].Share*policy.CPUs(c), site, site, site, doctor, c.Admin.Listen)
}
