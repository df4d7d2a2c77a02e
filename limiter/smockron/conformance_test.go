//go:build cgo

package smockron_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/limitertest"
	"tempomat/limiter/smockron"
)

// fleet is gatekeepers of one master.
type fleet struct {
	t         *testing.T
	master    *smockron.Master
	addresses smockron.Addresses
	end       func()
}

func TestConformance(t *testing.T) {
	limitertest.Sharers(t, func(t *testing.T, p limiter.Policy) limitertest.Fleet {
		b := p.Classes[0].Budget
		f := &fleet{t: t, addresses: freeAddresses(t), master: smockron.NewMaster(smockron.Settings{
			Domains: []smockron.Domain{{Name: "site.slash32", Rules: []smockron.Rule{
				{Kind: smockron.Credit, CPUs: b.CPUs, Burst: b.Burst},
			}}},
		})}
		f.Heal()
		t.Cleanup(f.Cut)
		return f
	})
}

func (f *fleet) Join(testing.TB) limiter.Sharer {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: []smockron.Route{{Domain: "site.slash32", Class: "slash32", Master: f.addresses}},
		Now:    time.Now,
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
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := smockron.Serve(ctx, f.master, smockron.ServeOptions{Addresses: f.addresses, Now: time.Now})
		if err != nil {
			f.t.Error(err)
		}
	})
	f.end = func() {
		cancel()
		running.Wait()
	}
}

// freeAddresses are two ports that were free a moment ago.
func freeAddresses(t *testing.T) smockron.Addresses {
	t.Helper()
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = fmt.Sprintf("tcp://%s", l.Addr())
	}
	return smockron.Addresses{Accounting: ports[0], Control: ports[1]}
}
