package main

import (
	"context"
	"io"
	"net"
	"os"
	"sync"

	"tempomat/cmd/tempomat-proxy/internal/demo"
	"tempomat/config"
)

// runDemoAttack shows what a crawler does to the demo site without the gate, and with it.
func runDemoAttack(ctx context.Context, s source, times demo.Times, stdout, stderr io.Writer) error {
	return demo.Attack(ctx, times, stdout, func(mode string, play func(at net.Addr)) error {
		return underAttack(ctx, s, mode, stderr, play)
	})
}

// underAttack runs a proxy before a demo site in that mode while play goes on.
func underAttack(ctx context.Context, s source, mode string, stderr io.Writer, play func(at net.Addr)) error {
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
	s.adapt = func(c *config.Config) {
		adaptToDemo(c, site, dir)
		c.Listen, c.Throttle.Mode, c.Log.Level, c.Log.Access = []config.Listener{{Address: "127.0.0.1:0"}}, mode, "error", "off"
	}
	c, err := s.load()
	if err != nil {
		return err
	}
	c.Timeouts.Drain = 0
	sockets, err := listen(ctx, addresses(c.Listen))
	if err != nil {
		return err
	}
	car, err := newSidecar(c, s, stderr)
	if err != nil {
		return err
	}
	defer car.logs.output.Close()
	work, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = car.run(work, sockets) })
	play(sockets[0].Addr())
	return nil
}
