package host

import (
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"tempomat/cpuaccount/process"
)

// Database measures the CPU time of this machine's databases. Requests that wait for a database share its CPU
// time in proportion to how long each waited.
//
// The price of a second of waiting is the databases' CPU time in the last interval, divided by the time that
// all requests waited in that interval. It is at most 1, or the databases' CPU time in each second if that is more,
// because otherwise most of the CPU time was the database's own work. A request that ends before the next reading pays this price. The requests that are still
// running then share the rest of the CPU time.
type Database struct {
	root   fs.FS
	opened *opened
	last   map[process.ID]time.Duration
	found  []int
	looked time.Time

	mu    sync.Mutex // guards the fields below
	pot   time.Duration
	ended time.Duration // total wait of the requests that have ended since the last interval
	price float64
}

func newDatabase() *Database { return &Database{root: os.DirFS("/"), opened: newOpened()} }

// pay returns how much CPU time a request that ends now owes for the time that it has waited.
func (d *Database) pay(waited time.Duration) time.Duration {
	if waited <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	share := time.Duration(float64(waited) * d.price)
	d.ended += waited
	d.pot -= share
	return share
}

// bill divides the CPU time used since the last call. waited is how long all requests that are still running
// have waited in this interval. bill returns the price that these requests pay per second of waiting.
func (d *Database) bill(used time.Duration, ok bool, waited time.Duration) (price float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.pot, d.ended, d.price = 0, 0, 0
		return 0
	}
	d.pot += used
	if all := waited + d.ended; all > 0 {
		d.price = max(0, min(used.Seconds()/all.Seconds(), max(1, used.Seconds()/readEvery.Seconds())))
	}
	d.ended = 0
	if waited > 0 && d.pot > 0 {
		price = d.pot.Seconds() / waited.Seconds()
		d.pot = 0
	}
	d.pot = min(d.pot, used) // CPU time of earlier intervals that no request has paid was the database's own work
	return price
}

const (
	// looksFor is the pause between two searches for databases.
	looksFor      = 10 * time.Second
	mostDatabases = 1024
)

// pids returns the databases' processes, found by name. Any process may choose such a name, but it gains
// nothing, because waiting requests then pay for its CPU time.
func (d *Database) pids(now time.Time) []int {
	if now.Sub(d.looked) < looksFor && !d.looked.IsZero() {
		return d.found
	}
	d.opened.sweep(now)
	d.looked, d.found = now, d.found[:0]
	for _, p := range processes(d.root) {
		if isDatabase(string(p.Name)) && len(d.found) < mostDatabases {
			d.found = append(d.found, p.PID)
		}
	}
	return d.found
}

// used returns the CPU time of the databases since the last call. A new process counts from its first
// reading.
func (d *Database) used(now time.Time) (sum time.Duration, ok bool) {
	pids := d.pids(now)
	next := make(map[process.ID]time.Duration, len(pids))
	for _, pid := range pids {
		id, u, err := d.opened.look(now, pid)
		if err != nil {
			continue
		}
		if before, is := d.last[id]; is {
			sum += u.CPU - before
		}
		next[id] = u.CPU
	}
	for id, cpu := range d.last {
		if _, still := next[id]; !still {
			sum -= cpu // its parent has waited for it, so the parent's CPU time now includes it
		}
	}
	isFirst := d.last == nil
	d.last = next
	return max(0, sum), !isFirst && len(next) > 0
}

// leastUsed is the least CPU time in an interval for which tempomat checks which processes use the
// database.
const leastUsed = time.Millisecond

// share charges the databases' CPU time to the requests that waited for them.
func (t *Tracker) share(now time.Time, all []Running) {
	used, ok := t.data.used(now)
	seen := ok && used >= leastUsed && t.askers.look(now, t.data.pids(now))
	var waited time.Duration
	waits := make([]time.Duration, len(all))
	for i := range all {
		if r := &all[i]; r.Is == WorkRead && r.Work != nil {
			if seen {
				w := r.Work.worker
				w.asksBy, w.asks = t.askers.isOne(w.id.PID, w.asksBy)
			}
			waits[i] = r.Work.waited(now, r.Work.worker.asks)
			waited += waits[i]
		}
	}
	price := t.data.bill(used, ok, waited)
	for i, d := range waits {
		if d > 0 && price > 0 {
			all[i].Reading.Database = all[i].Work.owes(time.Duration(float64(d) * price))
		}
	}
}

// waited returns how long the request has waited since the last call, if its process uses a database.
func (w *Work) waited(now time.Time, asks bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := w.newlyBlockedLocked(now)
	if w.asks = asks; !asks {
		return 0
	}
	return more
}

// owes adds to the request's part of the database's CPU time, and returns the sum.
func (w *Work) owes(share time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.Database += share
	return w.reading.Database
}

// askers finds the processes that are connected to a database, because only these can wait for it. This
// requires permission to read other processes' descriptors. Without it, every process counts as
// connected.
type askers struct {
	sockets *Sockets
	root    fs.FS

	looked  time.Time
	ports   []uint16 // ports at which the databases listen
	names   []string
	clients map[uint32]bool // inodes of the sockets that are connected to databases
}

// look finds the sockets that are connected to the given database processes. ok is false if they can't be seen.
func (a *askers) look(now time.Time, databases []int) (ok bool) {
	if a == nil {
		return false
	}
	if a.looked.IsZero() || now.Sub(a.looked) >= looksFor {
		a.looked = now
		a.listeners(databases)
	}
	if len(a.ports)+len(a.names) == 0 {
		return false
	}
	if a.clients == nil {
		a.clients = map[uint32]bool{}
	}
	clear(a.clients)
	if len(a.names) > 0 {
		a.sockets.EachUnix(Established, func(s Socket) {
			if s.Peer != 0 && slices.Contains(a.names, string(s.Name)) {
				a.clients[s.Peer] = true
			}
		})
	}
	for _, port := range a.ports {
		a.sockets.EachTCP(Established, 0, port, func(s Socket) { a.clients[s.Inode] = true })
	}
	return true
}

// listeners finds the addresses at which these processes listen.
func (a *askers) listeners(of []int) {
	held := map[uint32]bool{}
	for _, pid := range of {
		_ = eachDescriptor(a.root, pid, func(_ int, link string) bool {
			if inode := socketOf(link); inode != 0 {
				held[inode] = true
			}
			return true
		})
	}
	a.ports, a.names = nil, nil
	a.sockets.EachTCP(Listens, 0, 0, func(s Socket) {
		if held[s.Inode] && !slices.Contains(a.ports, s.Port) {
			a.ports = append(a.ports, s.Port)
		}
	})
	a.sockets.EachUnix(Listens, func(s Socket) {
		if name := string(s.Name); held[s.Inode] && name != "" {
			a.names = append(a.names, name)
		}
	})
}

// isOne reports whether a process is connected to a database, and through which descriptor. It checks the
// last known descriptor first.
func (a *askers) isOne(pid, last int) (fd int, is bool) {
	if a.clients[socketOf(linkOf(a.root, pid, last))] {
		return last, true
	}
	_ = eachDescriptor(a.root, pid, func(at int, link string) bool {
		fd, is = at, a.clients[socketOf(link)]
		return !is
	})
	return fd, is
}
