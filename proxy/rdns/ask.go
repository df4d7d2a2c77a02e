package rdns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	atOnce        = 4                      // addresses that are asked for at a time
	betweenAsking = 100 * time.Millisecond // from one question to the next
	burst         = 20                     // questions that may be asked at once after a pause
	patience      = 5 * time.Second        // with a question
	mostNames     = 2                      // of an address that are looked at
	longestName   = 253                    // of DNS, in bytes
)

// Run asks until the context ends. It is called once.
func (n *Names) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case a := <-n.queue.waiting:
					name, got := n.ask(ctx, a)
					n.queue.done(a)
					n.learn(time.Now(), a, name, got)
				}
			}
		})
	}
	all.Wait()
}

// ask asks for the name of an address, and whether it leads back.
func (n *Names) ask(ctx context.Context, a netip.Addr) (name string, got answer) {
	var names []string
	err := n.question(ctx, func(ctx context.Context) (err error) {
		names, err = n.resolver.LookupAddr(ctx, a.String())
		return err
	})
	names = n.below(names)
	if len(names) == 0 {
		return "", answerOf(err)
	}
	network := "ip4"
	if a.Is6() {
		network = "ip6"
	}
	got = none
	for _, name := range names {
		var addresses []netip.Addr
		err := n.question(ctx, func(ctx context.Context) (err error) {
			addresses, err = n.resolver.LookupNetIP(ctx, network, name+".") // no search among the domains of this machine
			return err
		})
		if slices.ContainsFunc(addresses, func(x netip.Addr) bool { return x.Unmap().WithZone("") == a }) {
			return name, found
		}
		if answerOf(err) == silence {
			got = silence
		}
	}
	return "", got
}

// question asks one, when it is time.
func (n *Names) question(ctx context.Context, ask func(context.Context) error) error {
	if err := n.pace.wait(ctx); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := ask(patient)
	if ctx.Err() == nil { // else it was given up by us
		n.silences.hear(time.Now(), err)
	}
	return err
}

// answerOf tells what it means that a question was answered so: there is no such name, or
// nobody knows.
func answerOf(err error) answer {
	if err == nil {
		return none
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return none
	}
	return silence
}

// below are the first of the names below the domains that matter, in lower case.
func (n *Names) below(names []string) (some []string) {
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if len(name) > longestName || len(some) == mostNames || !n.matters(name) {
			continue
		}
		some = append(some, strings.Clone(name))
	}
	return some
}

func (n *Names) matters(name string) bool {
	return slices.ContainsFunc(*n.domains.Load(), func(d string) bool {
		rest, ok := strings.CutSuffix(name, d)
		return ok && strings.HasSuffix(rest, ".")
	})
}

// pace bounds how many questions are asked.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next one may be asked, after as many as may be at once
}

// wait waits for the turn of a question.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-burst * betweenAsking); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(betweenAsking)
	turn := p.next.Sub(now)
	p.mu.Unlock()
	if turn <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(turn)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
