//go:build cgo

package smockron_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/internal/sim"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// fleet is gatekeepers of one master.
type fleet struct {
	t         *testing.T
	master    *master.Master
	addresses smockron.Addresses
	end       func()
}

func TestConformance(t *testing.T) {
	sim.Sharers(t, func(t *testing.T, p limiter.Policy) sim.Fleet {
		b := p.Classes[0].Budget
		f := &fleet{t: t, addresses: freeAddresses(t), master: master.New(master.Settings{
			Domains: []master.Domain{{Name: "site.slash32", Rules: []master.Rule{
				{Kind: master.Credit, CPUs: b.CPUs, Burst: b.Burst},
			}}},
		})}
		f.Heal()
		return f
	})
}

func (f *fleet) Join(testing.TB) limiter.Sharer {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: []smockron.Route{{Domain: "site.slash32", Class: "slash32", Master: f.addresses}},
		Now:    time.Now, Carries: true,
	})
}

// Cut ends the master. What it knows stays with it, as if a store kept it.
func (f *fleet) Cut() {
	if f.end != nil {
		f.end()
		f.end = nil
	}
}

func (f *fleet) Heal() {
	f.end = serve(f.t, f.master, master.ServeOptions{Addresses: f.addresses, Now: time.Now})
}

// serve has a master work until end is called, or the test ends.
func serve(t testing.TB, m *master.Master, o master.ServeOptions) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := master.Serve(ctx, m, o); err != nil {
			t.Error(err)
		}
	})
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return end
}

// subscriber is a gatekeeper's control socket, of the test's own.
func subscriber(t *testing.T, address string) *zmq.Socket {
	t.Helper()
	s, err := zmq.NewSocket(zmq.SUB)
	if err == nil {
		err = errors.Join(s.SetSubscribe(""), s.SetRcvtimeo(time.Second), s.Connect(address))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// freeAddresses are two that nobody else has.
func freeAddresses(t testing.TB) smockron.Addresses {
	t.Helper()
	return smockron.Addresses{Accounting: "tcp://" + testkit.FreeAddress(t), Control: "tcp://" + testkit.FreeAddress(t)}
}

// publisher is a master's control socket, of the test's own.
func publisher(t *testing.T, address string) *zmq.Socket {
	t.Helper()
	s, err := zmq.NewSocket(zmq.PUB)
	if err == nil {
		err = s.Bind(address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
