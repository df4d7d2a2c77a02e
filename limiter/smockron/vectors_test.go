//go:build cgo

package smockron_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// vectors are sequences recorded from the original master and gatekeeper on a
// virtual clock. Times are milliseconds from an epoch of one's choice.
type vectors struct {
	Sequences []struct {
		Name  string
		Mode  string // open: accounting as listed; closed: the gatekeepers' own decisions
		Rules map[string]struct {
			Interval int64 `json:"interval_ms"`
			Burst    int64 `json:"burst_ms"`
		}
		Steps []struct {
			At          int64
			Domain, ID  string
			Status, GK  string
			RcvTS       int64   `json:"rcv_ts"`
			DelayedTS   *int64  `json:"delayed_ts"`
			DelayUntil  *int64  `json:"delay_until"`
			SpecHistory *int64  `json:"spec_history"`
			Extra       *string `json:"log_info"`
		}
	}
}

const epoch = int64(1_700_000_000_000)

// TestVectors plays the recorded sequences through real sockets: what the original
// master announced with rule bucket, and what the protocol's text has it announce
// with rule history.
func TestVectors(t *testing.T) {
	file := os.Getenv("TEMPOMAT_VECTORS_SMOCKRON")
	if file == "" {
		file = "../../testdata/vectors/smockron.json"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sequences) == 0 {
		t.Fatalf("%s has no sequences", file)
	}
	for _, s := range v.Sequences {
		t.Run(s.Name, func(t *testing.T) {
			domains := func(kind master.Kind) (all []master.Domain) {
				for name, r := range s.Rules {
					all = append(all, master.Domain{Name: name, Rules: []master.Rule{{
						Kind: kind, Interval: time.Duration(r.Interval) * time.Millisecond, Burst: time.Duration(r.Burst) * time.Millisecond,
					}}})
				}
				return all
			}
			first := newStage(t, domains(master.Bucket))
			var keepers map[string]*keeper
			if s.Mode == "closed" {
				keepers = make(map[string]*keeper)
				for _, step := range s.Steps {
					if keepers[step.GK] == nil {
						keepers[step.GK] = first.keeper(slices.Collect(maps.Keys(s.Rules)))
					}
				}
			}
			var history *stage // another master
			hasHistory := false
			for _, step := range s.Steps {
				hasHistory = hasHistory || step.SpecHistory != nil
			}
			if s.Mode == "open" && hasHistory {
				history = newStage(t, domains(master.History))
			}
			for i, step := range s.Steps {
				first.now(step.At)
				var got string
				if keepers == nil {
					got = first.account(step.Domain, step.Status, step.ID, step.RcvTS, step.DelayedTS)
				} else {
					k := keepers[step.GK]
					status, delayed := k.ask(step.Domain, step.ID)
					if want := fmt.Sprint(step.Status, " ", show(step.DelayedTS)); want != fmt.Sprint(status, " ", show(delayed)) {
						t.Fatalf("step %d at %d: gatekeeper %s decided %s %s, want %s", i, step.At, step.GK, status, show(delayed), want)
					}
					got = first.settled(keepers)
				}
				if want := show(step.DelayUntil); got != want {
					t.Fatalf("step %d at %d: the master announced %s, want %s", i, step.At, got, want)
				}
				if history != nil {
					history.now(step.At)
					got := history.account(step.Domain, step.Status, step.ID, step.RcvTS, step.DelayedTS)
					if want := show(step.SpecHistory); got != want {
						t.Fatalf("step %d at %d: rule history announced %s, want %s", i, step.At, got, want)
					}
				}
			}
		})
	}
}

func show(ms *int64) string {
	if ms == nil {
		return "nothing"
	}
	return fmt.Sprint(*ms)
}

// stage is a master on a virtual clock, with sockets of the test's own at it.
type stage struct {
	t         *testing.T
	clock     atomic.Int64
	master    *master.Master
	addresses smockron.Addresses
	pub, sub  *zmq.Socket
	syncs     int
	orders    int                      // that were seen
	heard     chan smockron.Accounting // of gatekeepers, but for syncDomain
	running   sync.WaitGroup
}

// syncDomain is one more domain, whose second request is throttled: its answer
// says that all before it was done.
const syncDomain = "sync"

func newStage(t *testing.T, domains []master.Domain) *stage {
	t.Helper()
	domains = append(domains, master.Domain{Name: syncDomain, Rules: []master.Rule{{Interval: time.Minute, Burst: time.Minute}}})
	b := &stage{
		t: t, addresses: freeAddresses(t), heard: make(chan smockron.Accounting, 1000),
		master: master.New(master.Settings{Domains: domains, MaxSkew: -1}),
	}
	b.now(0)
	ctx, cancel := context.WithCancel(context.Background())
	b.running.Go(func() {
		if err := master.Serve(ctx, b.master, master.ServeOptions{Addresses: b.addresses, Now: b.time, Seen: b.hear}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		b.running.Wait()
	})
	b.pub, b.sub = b.socket(zmq.PUB, b.addresses.Accounting), b.socket(zmq.SUB, b.addresses.Control)
	if err := b.sub.SetSubscribe(""); err != nil {
		t.Fatal(err)
	}
	b.connect()
	return b
}

func (b *stage) hear(a *smockron.Accounting) {
	if !a.Resync && string(a.Domain) != syncDomain {
		b.heard <- *a
	}
}

func (b *stage) socket(kind zmq.Type, address string) *zmq.Socket {
	b.t.Helper()
	s, err := zmq.NewSocket(kind)
	if err == nil {
		err = s.Connect(address)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	return s
}

// connect waits until a message makes the whole round.
func (b *stage) connect() {
	b.t.Helper()
	b.sub.SetRcvtimeo(50 * time.Millisecond)
	for end := time.Now().Add(10 * time.Second); ; {
		b.sync()
		if m, err := b.sub.RecvMessage(0); err == nil && m[0] == syncDomain+"\x00" {
			break
		}
		if time.Now().After(end) {
			b.t.Fatal("no connection to the master")
		}
	}
	b.sub.SetRcvtimeo(10 * time.Second)
	b.drain() // answers of earlier tries
}

func (b *stage) now(ms int64)    { b.clock.Store(epoch + ms) }
func (b *stage) time() time.Time { return time.UnixMilli(b.clock.Load()) }

// sync sends what is answered for sure.
func (b *stage) sync() string {
	b.syncs++
	id := fmt.Sprint("sync-", b.syncs)
	ts := fmt.Sprint(b.clock.Load())
	for range 2 {
		b.pub.SendMessage(syncDomain+"\x00", "ACCEPTED", id, ts, "", "")
	}
	return id
}

// drain receives what the master sent before a round is made, and returns what it
// announced: nothing, or one time in milliseconds from the epoch.
func (b *stage) drain() string {
	b.t.Helper()
	id, got := b.sync(), "nothing"
	for {
		m, err := b.sub.RecvMessage(0)
		switch {
		case err != nil:
			b.t.Fatalf("the master is silent: %v", err)
		case len(m) == 2 && (m[1] == "RESYNCSTART" || m[1] == "RESYNCDONE"):
		case len(m) != 4 || m[1] != "DELAY_UNTIL":
			b.t.Fatalf("the master sent %q", m)
		case m[0] == syncDomain+"\x00" && m[2] == id:
			return got
		case m[0] == syncDomain+"\x00":
		case got != "nothing":
			b.t.Fatalf("the master announced more than one time: %s, and %q", got, m)
		default:
			ms, err := strconv.ParseInt(m[3], 10, 64)
			if err != nil {
				b.t.Fatalf("the master sent %q", m)
			}
			got = fmt.Sprint(ms - epoch)
			b.orders++
		}
	}
}

// account sends one message as a gatekeeper does, and returns what was announced.
func (b *stage) account(domain, status, id string, received int64, delayed *int64) string {
	b.t.Helper()
	until := ""
	if delayed != nil {
		until = fmt.Sprint(epoch + *delayed)
	}
	b.pub.SendMessage(domain+"\x00", status, id, fmt.Sprint(epoch+received), until, "")
	return b.drain()
}

// keeper is a gatekeeper with its limiter, on the same virtual clock.
type keeper struct {
	*stage
	limiter    *limiter.Limiter
	gatekeeper *smockron.Gatekeeper
}

func (b *stage) keeper(domains []string) *keeper {
	b.t.Helper()
	p := limiter.Policy{
		Mode: limiter.Fair, MaxHold: time.Minute, MaxHeld: 10_000,
		Classes: []limiter.ClassInfo{{Name: "client", Budget: limiter.Budget{CPUs: 100, Burst: time.Hour}}},
		Gate:    limiter.GateOptions{CPUs: 100, Workers: 10_000},
	}
	var o smockron.GatekeeperOptions
	for _, d := range domains {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: d, Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}})
		o.Routes = append(o.Routes, smockron.Route{Domain: d, Class: d, Master: b.addresses, Requests: true, Rejected: 1})
	}
	o.Now = b.time
	k := &keeper{stage: b, gatekeeper: smockron.NewGatekeeper(o)}
	k.limiter = limiter.New(b.time(), p, 1<<10, k.gatekeeper)
	ctx, cancel := context.WithCancel(context.Background())
	b.running.Go(func() {
		if err := k.gatekeeper.Run(ctx, k.limiter); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(cancel)
	testkit.Eventually(b.t, "the gatekeeper has what the master knows", func() bool {
		s := k.gatekeeper.State()[0]
		return s.Present && s.Synced
	})
	return k
}

// ask has the gatekeeper decide about a request, and returns what the master heard
// of it.
func (k *keeper) ask(domain, id string) (status string, delayed *int64) {
	k.t.Helper()
	now := k.time()
	ticket := k.limiter.Arrive(now, limiter.Arrival{Client: limiter.Key{Class: "client", ID: "x"}, Others: []limiter.Key{{Class: domain, ID: id}}})
	k.t.Cleanup(func() { k.limiter.Leave(k.time(), ticket) })
	var a smockron.Accounting
	select {
	case a = <-k.heard:
	case <-time.After(10 * time.Second):
		k.t.Fatal("the master hears nothing of a request")
	}
	if string(a.Domain) != domain || string(a.Identifier) != id || a.Received != now.UnixMilli() {
		k.t.Fatalf("the master heard %+v", a)
	}
	if a.Event == limiter.Delayed {
		until := a.Until - epoch
		return "DELAYED", &until
	}
	if a.Event == limiter.Rejected {
		return "REJECTED", nil
	}
	return "ACCEPTED", nil
}

// settled returns what the master announced, once all gatekeepers have heard it.
func (b *stage) settled(keepers map[string]*keeper) string {
	b.t.Helper()
	got := b.drain()
	for name, k := range keepers {
		testkit.Eventually(b.t, "gatekeeper "+name+" hears the order", func() bool {
			s := k.gatekeeper.State()[0]
			return s.Orders+s.Past == uint64(b.orders)
		})
	}
	return got
}
