package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/gossip"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// network connects the instances of a fleet in virtual time. A message arrives after half to one and a half
// times the delay, or never.
type network struct {
	*engine
	delay, loss float64 // seconds; the fraction of messages
	random      *rand.Rand
	members     []*member
	bytes       int // the size of all messages, counted at the sender and at the receiver
}

func (n *network) send(size int, comes func()) {
	n.bytes += 2 * size
	if n.random.Float64() >= n.loss {
		n.after(n.delay*(0.5+n.random.Float64()), comes)
	}
}

// way is a way in which the instances share state.
type way struct {
	name        string
	delay, loss float64
	// begin connects the newest member of a fleet after it has received its sink.
	begin func(hub any, m *member)
	// carry delivers a packet to all other members.
	carry func(m *member, packet []byte)
	hub   func(limiter.Policy) any // creates the hub through which the instances share
}

// member is the Sharer of one instance.
type member struct {
	*network
	way
	hub     any
	sink    limiter.Sink
	replica *gossip.Replica
	charges []limiter.Charge
	offer   func(limiter.Charge) // nil: a charge waits for the next tick
}

// Offer implements limiter.Sharer.
func (m *member) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true
	}
	if m.offer != nil {
		m.offer(c)
	} else {
		m.charges = append(m.charges, c)
	}
	return true
}

// Carry implements limiter.Sharer.
func (m *member) Carry(packet []byte) bool {
	m.carry(m, packet)
	return true
}

// Run implements limiter.Sharer.
func (m *member) Run(_ context.Context, in limiter.Sink) error {
	m.sink = in
	m.begin(m.hub, m)
	return nil
}

// Status implements limiter.Sharer.
func (m *member) Status() limiter.SharingStatus { return limiter.SharingStatus{} }

// open prepares the sharers of a fleet, and passes the network that connects them to wired.
func (w way) open(size int, wired func(*network)) func(*engine) limiter.Sharer {
	var n *network
	var hub any
	return func(e *engine) limiter.Sharer {
		if n == nil || n.engine != e {
			n = &network{engine: e, delay: w.delay, loss: w.loss, random: rand.New(rand.NewPCG(e.seed, 2))}
			if w.hub != nil {
				hub = w.hub(sharesOf(Policy(limiter.Fair, 2, 0), float64(size)))
			}
			wired(n)
		}
		m := &member{network: n, way: w, hub: hub}
		n.members = append(n.members, m)
		return m
	}
}

// These are the bytes that each way adds to a message: IP, UDP and encryption, or TCP and a pipeline's framing.
const datagram, segment = 28 + 45, 52

// waysToShare returns gossip by datagrams, Redis, and a master. The gossip protocol and the master's decisions
// are the product's code. Redis is the product's script, translated to Go.
func waysToShare() []way {
	return []way{
		{name: "gossip", delay: 0.001, loss: 0.02, begin: beginGossip, carry: func(m *member, packet []byte) {
			for _, o := range m.members {
				if o != m {
					m.send(len(packet)+datagram, func() { o.sink.Learn(m.time(), packet) })
				}
			}
		}},
		{name: "redis", delay: 0.001, loss: 0.001, hub: func(p limiter.Policy) any { return &accounts{policy: p, full: map[limiter.Key]float64{}} }, begin: beginRedis, carry: func(m *member, packet []byte) {
			a := m.hub.(*accounts)
			m.send(len(packet)+segment, func() { a.packets = append(a.packets, packet) })
		}},
		{name: "master", delay: 0.001, loss: 0.001, hub: func(p limiter.Policy) any { return masterOf(p) }, begin: beginMaster, carry: func(m *member, packet []byte) {
			m.send(len(packet)+segment, func() {
				for _, o := range m.members {
					m.send(len(packet)+segment, func() { o.sink.Learn(m.time(), packet) })
				}
			})
		}},
	}
}

func beginGossip(_ any, m *member) {
	m.replica = gossip.NewReplica(gossip.Node(len(m.members)), m.sink)
	for i, o := range m.members {
		var others []gossip.Node
		for j := range m.members {
			if i != j {
				others = append(others, gossip.Node(j+1))
			}
		}
		o.replica.SetMembers(m.time(), others)
	}
	m.every(0.1, func() {
		for _, c := range m.charges {
			m.replica.Charge(m.time(), c)
		}
		m.charges = m.charges[:0]
		for _, packet := range m.replica.Tick(m.time()) {
			for _, o := range m.members {
				if o != m {
					m.send(len(packet)+datagram, func() { o.replica.Received(m.time(), packet) })
				}
			}
		}
	})
}

// accounts is the state in Redis: the time when each key will have earned all its charges, and logs of indebted
// keys and of packets.
type accounts struct {
	policy  limiter.Policy
	full    map[limiter.Key]float64
	log     []owed
	packets [][]byte
}

type owed struct {
	key   limiter.Key
	until float64
}

// These are the bytes sent and received for each charged key and for each indebted key, without the key itself.
const chargeSize, entrySize = 280, 110

func beginRedis(hub any, m *member) {
	a := hub.(*accounts)
	read, heard, trips := 0, 0, 0
	raise := func(o owed) {
		if o.until > m.now {
			m.sink.Raise(m.time(), o.key, m.epoch.Add(seconds(o.until)))
		}
	}
	m.every(0.05, func() {
		sums, size := map[limiter.Key]float64{}, 2*segment+chargeSize
		for _, c := range m.charges {
			if sums[c.Key] == 0 {
				size += chargeSize + len(c.Key.ID)
			}
			sums[c.Key] += c.NormalizedCost().Seconds()
		}
		m.charges = m.charges[:0]
		trips++
		packets := trips%5 == 0
		m.send(size, func() {
			for _, c := range a.policy.Classes {
				for k, cost := range sums {
					if k.Class == c.Name {
						a.charge(m.now, k, cost/c.Budget.CPUs, c.Budget)
					}
				}
			}
			news, from := a.log[read:], heard
			if packets {
				heard = len(a.packets)
			}
			read = len(a.log)
			carried := a.packets[from:heard]
			size := segment + entrySize*len(news)
			for _, p := range carried {
				size += len(p) + entrySize
			}
			m.send(size, func() {
				for _, o := range news {
					raise(o)
				}
				for _, p := range carried {
					m.sink.Learn(m.time(), p)
				}
			})
		})
	})
}

// charge does what the script in Redis does.
func (a *accounts) charge(now float64, k limiter.Key, takes float64, b limiter.Budget) {
	burst := b.Burst.Seconds() / b.CPUs
	full := min(max(a.full[k], now)+takes, now+burst+limiter.DefaultMemory.Seconds())
	if a.full[k] = full; full-burst > now {
		a.log = append(a.log, owed{k, full - burst})
	}
}

// masterOf returns a master whose domains are the shared classes of a policy.
func masterOf(p limiter.Policy) *master.Master {
	s := master.Settings{}
	for _, c := range p.Classes {
		if !c.Budget.LocalOnly {
			s.Domains = append(s.Domains, master.Domain{Name: c.Name, Rules: []master.Rule{{
				Kind: master.Credit, CPUs: c.Budget.CPUs, Burst: c.Budget.Burst, Memory: limiter.DefaultMemory,
			}}})
		}
	}
	return master.New(s)
}

// accountingSize and orderSize are the sizes in bytes of an accounting message and of an order, without the
// identifier.
const accountingSize, orderSize = 75, 55

func beginMaster(hub any, m *member) {
	m.offer = func(c limiter.Charge) {
		m.send(accountingSize+len(c.Key.ID), func() {
			order, any := hub.(*master.Master).Account(m.time(), &smockron.Accounting{
				Domain: []byte(c.Key.Class), Event: limiter.Accepted, Identifier: []byte(c.Key.ID),
				Received: c.Received.UnixMilli(), Cost: c.NormalizedCost(), HasCost: true,
			})
			if !any {
				return
			}
			for _, o := range m.members {
				m.send(orderSize+len(order.Identifier), func() {
					o.sink.Raise(m.time(), limiter.Key{Class: order.Domain, ID: order.Identifier}, time.UnixMilli(order.Until))
				})
			}
		})
	}
}

// besieged is a kind of site with its people, and with newcomers who arrive during a crawl.
type besieged struct {
	name  string
	site  site
	page  Page // the page of people
	deep  Page // the page of crawlers, with the same path
	parts []Page
}

func besiegedSites() []besieged {
	return []besieged{
		{ // no cookies; load.php combines style sheets; crawlers request the pages that people request
			name: "wiki", site: site{parts: true}, page: Page{Path: "/index.php", Query: "title=", CPU: 0.2},
			deep: Page{Path: "/index.php", Query: "title=", CPU: 0.2}, parts: []Page{{Path: "/load.css", CPU: 0.02}, {Path: "/load.css", CPU: 0.02}},
		},
		{ // cookies; files as parts
			name: "blog", site: alike(), page: Page{Path: "/", Query: "p=", CPU: 0.05},
			deep: Page{Path: "/", Query: "s=", CPU: 0.25}, parts: []Page{part(), part(), part()},
		},
	}
}

// besiege returns the load of n machines of two CPUs each, with a crawl from one address, from 500 addresses,
// or from a new address for each request.
func (b besieged) besiege(n int, crawl string) Scenario {
	s := redirects(b.name+"-"+crawl, b.site, func() []*Client {
		known := asking(people(20*n), []Page{b.page})
		visits := firstVisits(100*n, Attack+20, Attack+170, []Page{b.page})
		for _, c := range known {
			c.Think = 20
		}
		for _, c := range visits {
			c.Rate, c.To, c.Once = 0, 0, true
		}
		for _, c := range append(known, visits...) {
			c.Parts, c.Connections = b.parts, 3
		}
		all := join(known, visits)
		switch crawl {
		case "1":
			return join(all, asking(crawlers(1, 20*n, 0x20000001, 0, robot, ""), []Page{b.deep}))
		case "500":
			return join(all, asking(crawlers(500, 1, 0x20000001, strewn, browser, ""), []Page{b.deep}))
		}
		return join(all, flood(3/b.deep.CPU*2*float64(n), true, []Page{b.deep}))
	})
	s.Name = b.name + "-" + crawl
	// A share is a part of one machine's CPUs. For n machines, it is n times as large
	// (docs/several-machines.md).
	s.change = func(p *limiter.Policy) { *p = sharesOf(*p, float64(n)*2/p.Gate.CPUs) }
	return s
}

// sharesOf returns a copy of a policy whose shares are multiplied.
func sharesOf(p limiter.Policy, times float64) limiter.Policy {
	p.Classes = slices.Clone(p.Classes)
	for i := range p.Classes {
		p.Classes[i].Budget.CPUs *= times
	}
	return p
}

// fleetRow is one row of the table: a fleet under attack, or one instance as large as the fleet.
type fleetRow struct {
	besieged
	crawl   string
	n       int
	by      *way    // nil: the instances share nothing
	balance string  // one, turns or sticky; apart: in turns, without a secret
	long    float64 // duration in seconds

	human, new, used float64 // percent of requests answered within a second, and of the CPUs
	kilobytes        float64 // sent and received by each instance per second
	megabytes        float64 // memory of each instance, including its part of the site and the clients
}

func (r *fleetRow) play(seed uint64) error {
	s, wired := r.besiege(r.n, r.crawl), (*network)(nil)
	s.end = Attack + r.long
	if r.balance == "one" {
		s.CPUs, s.Workers = s.CPUs*float64(r.n), s.Workers*r.n
	} else {
		s.Instances, s.Sticky = r.n, r.balance == "sticky"
	}
	if r.by != nil {
		s.share, s.Trust = r.by.open(r.n, func(n *network) { wired = n }), r.balance != "apart"
	}
	w, err := NewWorld(seed, s, limiter.Fair)
	if err != nil {
		return err
	}
	w.Run(s.Clients(), Attack, s.end)
	r.human, r.new, r.used = 100*w.Good("human"), 100*w.Good("new"), 100*w.Used()
	if wired != nil {
		r.kilobytes = float64(wired.bytes) / 1000 / s.end / float64(r.n)
	}
	r.megabytes = float64(testkit.Heap()) / 1e6 / float64(r.n)
	runtime.KeepAlive(w)
	return nil
}

func (r *fleetRow) String() string {
	way := "nothing"
	if r.by != nil {
		way = r.by.name
	}
	return fmt.Sprintf("%-9s %4d %-7s by %-7s | %5.1f%% %5.1f%% %5.1f%% | %8.1f\n", r.name+"-"+r.crawl, r.n, r.balance, way, r.human, r.new, r.used, r.kilobytes)
}

const fleetHead = "site         n             by         |  human    new    cpu | kB/s each\n"

// TestFleets checks that three instances behind a balancer do as well as one instance of three times the size,
// however they share state, and whether requests are balanced in turns or by address. For each site and crawl,
// one row has instances without a secret, which share debts but not known clients.
func TestFleets(t *testing.T) {
	within := map[string]float64{"turns": 2, "sticky": 10} // percentage points; a few hundred addresses aren't divided evenly
	var rows []*fleetRow
	for _, b := range besiegedSites() {
		for _, crawl := range []string{"1", "500", "new"} {
			row := func(by *way, balance string) *fleetRow {
				return &fleetRow{besieged: b, crawl: crawl, n: 3, by: by, balance: balance, long: 180}
			}
			some := []*fleetRow{row(nil, "one")}
			for _, by := range waysToShare() {
				some = append(some, row(&by, "turns"), row(&by, "sticky"))
			}
			some = append(some, row(&waysToShare()[0], "apart"))
			if !isFull() && !onlySome() {
				if b.name == "wiki" && crawl == "new" {
					rows = append(rows, some[:2]...)
				}
			} else if !onlySome() || named(b.name+"-"+crawl) {
				rows = append(rows, some...)
			}
		}
	}
	parallel(len(rows), func(i int) {
		if err := rows[i].play(1); err != nil {
			t.Error(err)
		}
	})
	table := "\n" + fleetHead
	var one *fleetRow
	for _, r := range rows {
		table += r.String()
		if r.balance == "one" {
			one = r
		} else if most, judged := within[r.balance]; judged && (r.human < one.human-most || r.new < one.new-most) {
			t.Errorf("want at most %g percentage points less than one instance of three times the size:\n%v%v", most, one, r)
		}
	}
	t.Log(table)
}

// TestLargeFleets prints the results of fleets of 10 and 100 instances, and what sharing costs each instance:
// traffic, and the memory that it needs in addition to that of an instance that shares nothing.
func TestLargeFleets(t *testing.T) {
	if !isFull() && !(onlySome() && named("large")) {
		t.Skip("runs only with make scenarios")
	}
	t.Log(strings.TrimSuffix(fleetHead, "\n") + "  MB each")
	for _, size := range []struct {
		n    int
		long float64
	}{{10, 120}, {100, 10}} {
		row := func(by *way, balance string) {
			r := &fleetRow{besieged: besiegedSites()[0], crawl: "new", n: size.n, by: by, balance: balance, long: size.long}
			testkit.Must(t, r.play(1))
			t.Logf("%s  %7.2f", strings.TrimSuffix(r.String(), "\n"), r.megabytes)
		}
		row(nil, "turns")
		for _, by := range slices.Backward(waysToShare()) {
			row(&by, "turns")
		}
		if size.n < 100 {
			row(nil, "one")
			row(&waysToShare()[0], "apart")
		}
	}
}
