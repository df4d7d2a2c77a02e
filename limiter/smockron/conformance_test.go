//go:build cgo

package smockron_test

import (
	"context"
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

// fleet is the set of gatekeepers of one master.
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

// Cut ends the master. Its data is kept, as if in a store.
func (f *fleet) Cut() {
	if f.end != nil {
		f.end()
		f.end = nil
	}
}

func (f *fleet) Heal() {
	f.end = serve(f.t, f.master, master.ServeOptions{Addresses: f.addresses, Now: time.Now})
}

// serve runs a master until end is called, or the test ends.
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

// socket returns a socket for the test itself, configured by set.
func socket(t testing.TB, kind zmq.Type, set func(*zmq.Socket) error) *zmq.Socket {
	t.Helper()
	s, err := zmq.NewSocket(kind)
	if err == nil {
		err = set(s)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// freeAddresses returns two addresses that only this test uses.
func freeAddresses(t testing.TB) smockron.Addresses {
	t.Helper()
	return smockron.Addresses{Accounting: "tcp://" + testkit.FreeAddress(t), Control: "tcp://" + testkit.FreeAddress(t)}
}
