package proof

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"tempomat/classify/robots"
)

const (
	atOnce        = 4                      // addresses that are looked up at a time
	betweenAsking = 100 * time.Millisecond // from one question to the next
	burst         = 20                     // questions that may be asked at once after a pause
	answerWithin  = 5 * time.Second        // a question
	mostNames     = 2                      // of an address that are looked at
	longestName   = 253                    // of DNS, in bytes

	silentInARow = 3                // questions without an answer, until OnSilence's function is called
	quietFor     = 10 * time.Minute // it is not called again before: broken zones of others could call it all the time
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
				case a := <-n.waiting:
					name, got := n.ask(ctx, a)
					n.learn(time.Now(), a, name, got)
				}
			}
		})
	}
	all.Wait()
}

// ask looks the name of an address up, and whether it leads back.
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
	if err := n.pace.Wait(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := ask(limited)
	if ctx.Err() == nil { // else it was given up by us
		n.silences.hear(time.Now(), err)
	}
	return err
}

// answerOf is what the end of a question means: there is no such name, or the resolver does
// not know.
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
		if len(name) > longestName || len(some) == mostNames || !robots.IsBelow(name, *n.domains.Load()) {
			continue
		}
		some = append(some, strings.Clone(name))
	}
	return some
}

// silences notice that the resolver does not answer any more: robots are then no longer
// verified, and nothing else shows that.
type silences struct {
	mu   sync.Mutex // guards the following
	tell func(err error)
	row  int
	told bool
	next time.Time // when tell may be called again
}

// OnSilence sets a function that is called with the reason when the resolver does not answer,
// and with nil when it does again. It is set before Run.
func (n *Names) OnSilence(tell func(err error)) { n.silences.tell = tell }

// hear takes in how a question ended.
func (s *silences) hear(now time.Time, err error) {
	silent := answerOf(err) == silence
	if !s.count(now, silent) || s.tell == nil {
		return
	}
	if !silent {
		err = nil // that there is no such name is an answer
	}
	s.tell(err)
}

// count counts a question, and returns whether tell must be called.
func (s *silences) count(now time.Time, silent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !silent {
		told := s.told
		s.row, s.told = 0, false
		return told
	}
	s.row++
	if s.row < silentInARow || s.told || now.Before(s.next) {
		return false
	}
	s.told, s.next = true, now.Add(quietFor)
	return true
}
