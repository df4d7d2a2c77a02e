package smockron_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// vectors are sequences that were recorded from the original master and gatekeeper with a virtual clock. Times
// are milliseconds since some epoch.
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

// TestVectors plays the recorded sequences. With rule bucket, the master must announce what the original master
// announced. With rule history, it must announce what the protocol's text requires. Other tests cover the
// sockets in between.
func TestVectors(t *testing.T) {
	file := cmp.Or(os.Getenv("TEMPOMAT_VECTORS_SMOCKRON"), "../../testdata/vectors/smockron.json")
	var v vectors
	testkit.Must(t, json.Unmarshal([]byte(testkit.ReadFile(t, file)), &v))
	if len(v.Sequences) == 0 {
		t.Fatalf("%s has no sequences", file)
	}
	for _, s := range v.Sequences {
		t.Run(s.Name, func(t *testing.T) {
			stageOf := func(kind master.Kind) *stage {
				var domains []master.Domain
				for name, r := range s.Rules {
					domains = append(domains, master.Domain{Name: name, Rules: []master.Rule{{
						Kind: kind, Interval: time.Duration(r.Interval) * time.Millisecond, Burst: time.Duration(r.Burst) * time.Millisecond,
					}}})
				}
				return &stage{master.New(master.Settings{Domains: domains, MaxSkew: 24 * time.Hour}), map[string]*keeper{}}
			}
			first, history := stageOf(master.Bucket), stageOf(master.History)
			hasHistory := false
			for _, step := range s.Steps {
				hasHistory = hasHistory || step.SpecHistory != nil
				if s.Mode == "closed" && first.keepers[step.GK] == nil {
					first.keepers[step.GK] = newKeeper(step.At, s.Rules)
				}
			}
			for i, step := range s.Steps {
				status, received, delayed := step.Status, step.RcvTS, step.DelayedTS
				if s.Mode == "closed" {
					received = step.At
					status, delayed = first.keepers[step.GK].ask(step.At, step.Domain, step.ID)
					if want := fmt.Sprint(step.Status, " ", show(step.DelayedTS)); want != fmt.Sprint(status, " ", show(delayed)) {
						t.Fatalf("step %d at %d: gatekeeper %s decided %s %s, want %s", i, step.At, step.GK, status, show(delayed), want)
					}
				}
				if got, want := first.account(step.At, step.Domain, status, step.ID, received, delayed), show(step.DelayUntil); got != want {
					t.Fatalf("step %d at %d: the master announced %s, want %s", i, step.At, got, want)
				}
				if s.Mode != "open" || !hasHistory {
					continue
				}
				if got, want := history.account(step.At, step.Domain, status, step.ID, received, delayed), show(step.SpecHistory); got != want {
					t.Fatalf("step %d at %d: rule history announced %s, want %s", i, step.At, got, want)
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

func moment(ms int64) time.Time { return time.UnixMilli(epoch + ms) }

// stage is a master with a virtual clock, and the gatekeepers that receive its orders.
type stage struct {
	master  *master.Master
	keepers map[string]*keeper
}

// account passes a gatekeeper's message to the master, and returns the master's order.
func (s *stage) account(now int64, domain, status, id string, received int64, delayed *int64) string {
	until := ""
	if delayed != nil {
		until = fmt.Sprint(epoch + *delayed)
	}
	var frames [][]byte
	for _, f := range []string{domain + "\x00", status, id, fmt.Sprint(epoch + received), until, ""} {
		frames = append(frames, []byte(f))
	}
	a, err := smockron.ParseAccounting(frames)
	if err != nil { // the master drops the message
		return "nothing"
	}
	o, any := s.master.Account(moment(now), &a)
	if !any {
		return "nothing"
	}
	for _, k := range s.keepers {
		k.Raise(moment(now), limiter.Key{Class: o.Domain, ID: o.Identifier}, time.UnixMilli(o.Until))
	}
	return fmt.Sprint(o.Until - epoch)
}

// keeper is the limiter of a gatekeeper, and the last charge that it offered to share.
type keeper struct {
	*limiter.Limiter
	offered limiter.Charge
}

func (k *keeper) Offer(c limiter.Charge) bool             { k.offered = c; return true }
func (k *keeper) Carry([]byte) bool                       { return true }
func (k *keeper) Run(context.Context, limiter.Sink) error { return nil }
func (k *keeper) Status() limiter.SharingStatus           { return limiter.SharingStatus{} }

func newKeeper[R any](now int64, domains map[string]R) *keeper {
	p := limiter.Policy{
		Mode: limiter.Fair, MaxHold: time.Minute, MaxHeld: 10_000,
		Classes: []limiter.ClassInfo{{Name: "client", Budget: limiter.Budget{CPUs: 100, Burst: time.Hour, LocalOnly: true}}},
		Gate:    limiter.GateOptions{CPUs: 100, Workers: 10_000},
	}
	for d := range domains {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: d, Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}})
	}
	k := new(keeper)
	k.Limiter = limiter.New(moment(now), p, 1<<10, k)
	return k
}

// ask makes the gatekeeper decide about a request. It returns the decision and the time until which the request
// is delayed.
func (k *keeper) ask(now int64, domain, id string) (status string, delayed *int64) {
	ticket := k.Arrive(moment(now), limiter.Arrival{Client: limiter.Key{Class: "client", ID: "x"}, Others: []limiter.Key{{Class: domain, ID: id}}})
	if ticket.Verdict().Refused() {
		return "REJECTED", nil
	}
	if k.offered.Event == limiter.Delayed {
		until := k.offered.Until.UnixMilli() - epoch
		return "DELAYED", &until
	}
	return "ACCEPTED", nil
}
