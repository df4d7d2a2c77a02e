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

	"go.uber.org/zap"

	"tempomat/classify/robots"
)

const (
	atOnce        = 4                      // number of addresses that are looked up at the same time
	betweenAsking = 100 * time.Millisecond // pause between two queries
	burst         = 20                     // maximum number of queries at once after a pause
	answerWithin  = 5 * time.Second        // time limit for an answer
	mostNames     = 2                      // maximum number of an address's names to check
	longestName   = 253                    // longest name in DNS, in bytes

	silentInARow = 3                // how many queries in a row must stay unanswered before this is logged
	quietFor     = 10 * time.Minute // pause between two such lines, because broken DNS zones may cause many of them
)

// Run looks up addresses until the context ends. It must be called once.
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

// ask looks up the names of an address, and checks whether one of them resolves to the address.
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
			addresses, err = n.resolver.LookupNetIP(ctx, network, name+".") // the dot prevents the use of this machine's search domains
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

// question waits for its turn and sends a query.
func (n *Names) question(ctx context.Context, ask func(context.Context) error) error {
	if err := n.pace.Wait(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := ask(limited)
	if ctx.Err() == nil { // otherwise the query failed because Run is ending
		n.hear(time.Now(), err)
	}
	return err
}

// answerOf returns none if err means that the resolver answered, for example that there is no such name. It
// returns silence if the resolver didn't answer.
func answerOf(err error) answer {
	if err == nil {
		return none
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return none
	}
	return silence
}

// below returns the first names below the domains of robots, in lower case.
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

// hear records how a query ended. It logs that the resolver doesn't answer, because nothing else shows that
// robots are no longer verified.
func (n *Names) hear(now time.Time, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if answerOf(err) != silence {
		n.silent = 0
		return
	}
	if n.silent++; n.silent >= silentInARow && !now.Before(n.quiet) {
		n.quiet = now.Add(quietFor)
		n.log.Warn("can't verify robots by DNS: the resolver doesn't answer. Until it does, robots share the account of unverified robots", zap.Error(err))
	}
}
