package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

// Database is the CPU use of this machine's databases. Requests that wait for them share it, in
// proportion to how long each waited.
//
// The price is CPU time of the databases for a second of waiting, as it was in the last
// interval. A request that ends before the next look pays it; the others pay what is left.
type Database struct {
	cgroup string // whose counters tell; empty: those of the processes that are found
	total  time.Duration
	began  bool // total is what the cgroup had used

	root   fs.FS
	opened *opened
	last   map[process.ID]time.Duration
	found  []int
	looked time.Time

	mu    sync.Mutex // guards the following
	pot   time.Duration
	ended time.Duration // for how long those have waited who ended since the last interval
	price float64
}

// OpenDatabase makes one that reads the cpu.stat of a cgroup, or, without one, the databases'
// processes as they are found. The error says that the cgroup has no cpu.stat that can be read.
func OpenDatabase(cgroup string) (*Database, error) {
	d := &Database{cgroup: cgroup, root: os.DirFS("/"), opened: newOpened()}
	if cgroup != "" {
		if _, err := d.cgroupTotal(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// pay takes what a request owes that ends now, for that it has waited for so long.
func (d *Database) pay(waited time.Duration) time.Duration {
	if d == nil || waited <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	share := time.Duration(float64(waited) * d.price)
	d.ended += waited
	d.pot -= share
	return share
}

// bill takes in what was used since it was called last, and tells what each pays for each
// second of waiting in this interval, of those who have not ended: they have waited for so long.
func (d *Database) bill(used time.Duration, ok bool, waited time.Duration) (price float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.pot, d.ended, d.price = 0, 0, 0
		return 0
	}
	d.pot += used
	if all := waited + d.ended; all > 0 {
		d.price = max(0, used.Seconds()/all.Seconds())
	}
	d.ended = 0
	if waited > 0 && d.pot > 0 {
		price = d.pot.Seconds() / waited.Seconds()
		d.pot = 0
	}
	d.pot = min(d.pot, used) // what no request has paid until now is the database's own work
	return price
}

const (
	// looksFor is how often databases are looked for.
	looksFor      = 10 * time.Second
	mostDatabases = 1024
)

// pids are its processes: those of the cgroup, without those of groups below it, or those found by their names, which
// any process may set: one that takes such a name has its CPU time charged to requests that wait. It gains nothing.
func (d *Database) pids(now time.Time) []int {
	if d.cgroup != "" {
		return numbers(read(filepath.Join(d.cgroup, "cgroup.procs")))
	}
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

// used is what it used since the last call. A process that is new counts from then on.
func (d *Database) used(now time.Time) (sum time.Duration, ok bool) {
	if d.cgroup != "" {
		return d.cgroupUsed()
	}
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
			sum -= cpu // its parent has it now, which has waited for it
		}
	}
	isFirst := d.last == nil
	d.last = next
	return max(0, sum), !isFirst && len(next) > 0
}

func (d *Database) cgroupUsed() (sum time.Duration, ok bool) {
	total, err := d.cgroupTotal()
	sum, ok = total-d.total, err == nil && d.began && total >= d.total
	d.total, d.began = total, err == nil
	return sum, ok
}

func (d *Database) cgroupTotal() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(d.cgroup, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	used, _, ok := cpuaccount.ReadOwn(text)
	if !ok {
		return 0, os.ErrInvalid
	}
	return time.Duration(used * float64(time.Second)), nil
}

// leastUsed is the least use of a database for which tempomat looks which processes wait for it.
const leastUsed = time.Millisecond

// share has those who waited pay for the database.
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

// waited is for how long the request has waited for a database since the last time, if it asks
// one.
func (w *Work) waited(now time.Time, asks bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := w.newlyBlockedLocked(now)
	if w.asks = asks; !asks {
		return 0
	}
	return more
}

// owes adds to what the request has to pay for the database, and returns all of it.
func (w *Work) owes(share time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.Database += share
	return w.reading.Database
}

// askers tells which processes are connected with a database: only they wait for it. That
// takes the right to see descriptors; where it is missing all are taken to be.
type askers struct {
	sockets *Sockets
	root    fs.FS

	looked  time.Time
	ports   []uint16 // where the databases listen
	names   []string
	clients map[uint32]bool // the sockets that are connected there, by their inodes
}

// look finds who is connected now with the databases that have these processes. Not ok: it
// is not to be seen.
func (a *askers) look(now time.Time, databases []int) (ok bool) {
	if a == nil {
		return false
	}
	pause := looksFor
	if len(a.ports)+len(a.names) == 0 {
		pause = time.Second // it may be about to start
	}
	if a.looked.IsZero() || now.Sub(a.looked) >= pause {
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

// listeners finds where processes listen.
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

// isOne reports whether a process is connected with a database, and by which descriptor. It
// first tries the descriptor of the last time.
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
