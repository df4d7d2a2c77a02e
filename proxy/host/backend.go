package host

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

const (
	// queueEvery is the pause between two readings of the accept queues. It is short, so that the limiter sees
	// a queue before it sends many more requests into it. A reading takes about 30 µs.
	queueEvery = 100 * time.Millisecond
	// lookEvery is the pause between two checks of which processes the backend has. The backend's
	// configuration is read again only if its processes have changed.
	lookEvery = 5 * time.Second
)

// Learner receives what Backend sees of the workers.
type Learner interface {
	// Backlog receives the results of Sample.
	Backlog(now time.Time, queued, processes, full int)
	// Found receives the largest number of workers that the backend may have, and the setting that limits it.
	// 0: the configuration sets no limit.
	Found(now time.Time, workers int, source string)
}

// Backend watches a backend on this machine from outside: how many connections wait for its workers,
// how many workers its configuration allows, and how much CPU time its processes use. This needs no
// privilege. All methods may be called concurrently.
type Backend struct {
	root fs.FS

	mu       sync.Mutex // guards the fields below
	sockets  *Sockets   // asks the kernel about sockets; nil: the kernel doesn't answer, or the Backend is closed
	listener listener
	known    bool // whether there is a backend, at the address listener
	seen     string
	is       identity
	last     map[int]then // last reading of each process, by process number
	looked   time.Time    // time of the last look
	groups   map[string]*group
}

// identity says which programs the backend consists of.
type identity struct {
	inner   []Pool   // php-fpm pools that the backend passes requests to
	forks   []int    // numbers of the masters whose children serve requests
	trees   []int    // numbers of the masters, including databases, that have no cgroup of their own
	groups  []string // directories of the cgroups of all other masters
	whole   bool     // whether no other processes are known to compute for the backend
	workers int
	by      string
}

// then is an earlier reading of a process: when the process began, how much CPU time it had used, and how long
// it had waited for a CPU.
type then struct {
	began      uint64
	cpu, delay time.Duration
}

// group is the last reading of a cgroup: its CPU time and its pressure.
type group struct {
	cpu, niced float64
	pressure   cpuaccount.Pressure
}

// OpenBackend opens a socket to ask the kernel about other sockets. If that fails, err says why, and
// the Backend reports nothing.
func OpenBackend() (*Backend, error) {
	b := &Backend{root: os.DirFS("/")}
	var err error
	b.sockets, err = OpenSockets()
	return b, err
}

// Watch sets the backend's URL: http, https or unix, on this machine. If it is nil or leads to another
// machine, the Backend reports nothing.
func (b *Backend) Watch(backend *url.URL) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listener, b.known, b.seen, b.is = listener{}, false, "", identity{}
	if backend != nil {
		b.listener, b.known = listenerOf(backend)
	}
}

// Run calls the learner, one method at a time, until the context ends. Then it closes the Backend.
func (b *Backend) Run(ctx context.Context, learner Learner) {
	defer b.close()
	queues := time.NewTicker(queueEvery)
	defer queues.Stop()
	var next time.Time
	for now := time.Now(); ; {
		if !now.Before(next) {
			if workers, by := b.look(); by != "" {
				learner.Found(now, workers, by)
			}
			next = now.Add(lookEvery)
		}
		select {
		case <-ctx.Done():
			return
		case now = <-queues.C:
			if queued, processes, full, ok := b.Sample(); ok {
				learner.Backlog(now, queued, processes, full)
			}
		}
	}
}

// Sample returns how many connections the backend, or the php-fpm behind it, has yet to accept. If connections
// wait, Sample also returns the number of processes; 0: unknown. If they wait only at some php-fpm pools, full is
// the number of these pools' workers; otherwise it is 0. ok is false if there is no visible listening socket. An
// empty queue doesn't mean that a worker is free, because some servers accept at once and queue internally.
func (b *Backend) Sample() (queued, processes, full int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known || b.sockets == nil {
		return 0, 0, 0, false
	}
	own, ok := queueAt(b.sockets, b.listener)
	queued = own.queued
	all := true // whether connections wait at all pools
	for _, p := range b.is.inner {
		switch q, is := queueAt(b.sockets, p.at); {
		case q.queued > 0:
			queued, full, ok = queued+q.queued, full+p.Children, true
		case is:
			all, ok = false, true
		}
	}
	if queued > 0 {
		processes = len(b.workersLocked())
	}
	if all || own.queued > 0 {
		full = 0
	}
	return queued, processes, full, ok
}

// workersLocked returns the backend's processes, or none if they are unknown.
func (b *Backend) workersLocked() (pids []int) {
	for _, pid := range b.is.forks {
		pids = append(pids, children(b.root, pid)...)
	}
	if len(b.is.forks) > 0 {
		return pids
	}
	for _, dir := range b.is.groups {
		text, _ := fs.ReadFile(b.root, dir+"/cgroup.procs") // if the cgroup is gone, it has no processes
		pids = append(pids, numbers(text)...)
	}
	return pids
}

// look finds the backend's programs, their number of workers, and the setting that limits the number. If
// nothing has changed, by is empty.
func (b *Backend) look() (workers int, by string) {
	b.mu.Lock()
	l, known, before := b.listener, b.known && b.sockets != nil, b.seen
	var at queue
	if known {
		at, _ = queueAt(b.sockets, l) // without a socket, the server's processes may still be found
	}
	b.mu.Unlock()
	if !known {
		return 0, ""
	}
	all := processes(b.root) // this reads files, so it runs without the lock
	seen := fingerprint(all, at)
	if seen == before {
		return 0, ""
	}
	found := identify(b.root, all, l, at)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known || b.listener.name != l.name || b.listener.port != l.port {
		return 0, "" // Watch has set another backend in the meantime
	}
	if !slices.Equal(b.is.trees, found.trees) || b.groups == nil {
		b.last, b.groups = nil, map[string]*group{}
	}
	b.seen, b.is = seen, found
	return found.workers, cmp.Or(found.by, "nothing")
}

func isApache(name string) bool { return name == "apache2" || name == "httpd" }
func isServer(name string) bool { return isApache(name) || name == "nginx" }

// fingerprint returns a text that changes when a server's master or all of its children are replaced, because
// only then has the server read its configuration again.
func fingerprint(all []process.Stat, at queue) string {
	var text strings.Builder
	fmt.Fprint(&text, at.socket, at.cgroup)
	masters := tops(all, func(name string) bool {
		return isServer(name) || isDatabase(name) || strings.HasPrefix(name, "php-fpm")
	})
	for _, m := range masters {
		oldest := uint64(math.MaxUint64)
		for _, p := range all {
			if p.Parent == m.PID {
				oldest = min(oldest, p.Start)
			}
		}
		if isDatabase(string(m.Name)) {
			oldest = 0 // a database's children don't count, because they start and end with its connections
		}
		fmt.Fprint(&text, " ", m.PID, m.Start, oldest)
	}
	return text.String()
}

// identify finds the program that listens at an address, and the programs that compute for it.
func identify(root fs.FS, all []process.Stat, l listener, at queue) (is identity) {
	master, conf := serverAt(root, all, l, at.socket)
	mount, own := cgroups(root), cgroupOf(root, "self")
	var members []process.Stat
	switch {
	case conf != nil:
		pools, others := conf.pools(l, findFPM(root, all))
		is.whole = !others
		is.workers, is.by = conf.workers, conf.by
		members = append(members, master)
		if conf.php {
			pools = nil
		}
		if len(pools) > 0 && !others { // requests to other programs need no worker of the pools
			is.workers, is.by = together(pools)
		}
		for _, p := range pools {
			if at, ok := listenerAt(p.Listen); ok && !at.meets(l) {
				p.at = at
				is.inner = append(is.inner, p)
			}
			if !slices.ContainsFunc(members, func(m process.Stat) bool { return m.PID == p.master.PID }) {
				members = append(members, p.master)
			}
		}
		for _, m := range members {
			is.forks = append(is.forks, m.PID)
		}
	case at.cgroup != 0 && mount != "":
		name := cgroupNamed(root, mount, at.cgroup)
		if !isService(name, own) {
			return is
		}
		is.groups = []string{mount + name}
		is.whole = !handsOn(root, mount+name)
	default:
		return is
	}
	members = append(members, tops(all, isDatabase)...)
	for _, m := range members {
		name := cgroupOf(root, fmt.Sprint(m.PID))
		dir := mount + name
		if mount == "" || !isService(name, own) {
			is.trees = append(is.trees, m.PID)
		} else if !slices.Contains(is.groups, dir) {
			is.groups = append(is.groups, dir)
		}
	}
	return is
}

// serverAt finds the web server that listens at an address. If this process may see which process holds the
// socket, serverAt returns that one; otherwise it compares the servers' configurations.
func serverAt(root fs.FS, all []process.Stat, l listener, socket uint32) (master process.Stat, conf *server) {
	for _, m := range tops(all, isServer) {
		at, err := descriptorOf(root, m.PID, socket)
		has := at >= 0
		if err == nil && socket != 0 && !has {
			continue
		}
		args := commandLine(root, m.PID)
		var s *server
		if isApache(string(m.Name)) {
			s = readApache(root, args)
		} else {
			s = readNginx(root, strings.Fields(strings.TrimPrefix(args[0], "nginx: master process ")))
		}
		if has || s.at(l) {
			return m, s
		}
	}
	return master, nil
}

// handsOn reports whether a process in a cgroup passes requests to other programs.
func handsOn(root fs.FS, dir string) bool {
	text, _ := fs.ReadFile(root, dir+"/cgroup.procs") // if the cgroup is gone, it has no processes
	for i, pid := range numbers(text) {
		name, err := fs.ReadFile(root, procFile(pid, "comm"))
		if err == nil && forwards(string(name)) || i > mostProcesses {
			return true
		}
	}
	return false
}

// own returns the CPU use of the backend's processes since the last call. The use of a process or cgroup that
// is new since then counts as unknown.
func (b *Backend) own(now time.Time) (o cpuaccount.Own) {
	unknown := cpuaccount.Own{CPU: -1, Lacked: -1, Waits: -1}
	if b == nil {
		return unknown
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.is.groups)+len(b.is.trees) == 0 {
		return unknown
	}
	ok, told := b.processesLocked(&o), true
	passed := now.Sub(b.looked).Seconds()
	b.looked = now
	if slices.ContainsFunc(b.is.trees, func(pid int) bool { return slices.Contains(b.is.forks, pid) }) {
		o.Waits = min(o.Lacked/passed, 1)
		told = o.Lacked >= 0
	}
	for _, dir := range b.is.groups {
		waits, is := b.groupLocked(now, dir, &o)
		ok, told = ok && is, told && waits >= 0
		o.Waits = max(o.Waits, waits)
	}
	if !ok || !b.is.whole {
		o.CPU, o.Lacked, told = -1, -1, false
	}
	if !told {
		o.Waits = -1
	}
	return o
}

// groupLocked adds the CPU use of a cgroup to o. It returns the part of the time in which a process of that
// cgroup waited for a CPU; negative: unknown.
func (b *Backend) groupLocked(now time.Time, dir string, o *cpuaccount.Own) (waits float64, ok bool) {
	text, _ := fs.ReadFile(b.root, dir+"/cpu.stat")
	cpu, niced, ok := cpuaccount.ReadOwn(text)
	if !ok {
		delete(b.groups, dir)
		return -1, false
	}
	g := b.groups[dir]
	begun := g != nil && cpu >= g.cpu
	if !begun {
		g = &group{}
		b.groups[dir] = g
	}
	text, _ = fs.ReadFile(b.root, dir+"/cpu.pressure") // some kernels don't have it
	waits, known := g.pressure.Sample(now, text)
	if !known {
		waits = -1
	}
	if begun {
		o.CPU += cpu - g.cpu
		if niced >= 0 {
			o.Niced += niced - g.niced
		} else if hasNiced(b.root, dir) {
			o.Niced += cpu - g.cpu
		}
	}
	g.cpu, g.niced = cpu, niced
	return waits, begun
}

// hasNiced reports whether a process in a cgroup has a positive nice value.
func hasNiced(root fs.FS, dir string) bool {
	text, _ := fs.ReadFile(root, dir+"/cgroup.procs") // if the cgroup is gone, it has no processes
	return slices.ContainsFunc(numbers(text), func(pid int) bool {
		p, ok := processAt(root, pid)
		return ok && p.Nice > 0
	})
}

// processesLocked adds up the CPU time of masters and their children, and how long those that work for the
// backend waited for a CPU. When a child has ended, its CPU time is part of its master's.
func (b *Backend) processesLocked(o *cpuaccount.Own) (ok bool) {
	masters := slices.Concat(b.is.forks, b.is.trees)
	slices.Sort(masters)
	before, now, sum := b.last, make(map[int]then, len(b.last)+8), time.Duration(0)
	areKnown := len(before) > 0
	for _, master := range slices.Compact(masters) {
		counts, works := slices.Contains(b.is.trees, master), slices.Contains(b.is.forks, master)
		for _, pid := range append([]int{master}, children(b.root, master)...) {
			p, ok := processAt(b.root, pid)
			if !ok {
				continue
			}
			is, was := then{began: p.Start}, before[pid]
			if was.began == p.Start {
				delete(before, pid)
			} else {
				was = then{}
			}
			if counts {
				is.cpu = p.Own + p.Children
				sum += is.cpu - was.cpu
				if p.Nice > 0 {
					o.Niced += max(0, (is.cpu - was.cpu).Seconds())
				}
			}
			if works {
				var told bool
				is.delay, told = delayOf(b.root, pid)
				areKnown = areKnown && told && p.Threads <= 1 // schedstat has only the first thread's delay
				o.Lacked += (is.delay - was.delay).Seconds()
			}
			now[pid] = is
		}
	}
	for _, gone := range before {
		sum -= gone.cpu
	}
	isFirst := b.last == nil
	if b.last = now; !areKnown {
		o.Lacked = -1
	}
	if !isFirst {
		o.CPU += max(0, sum.Seconds())
	}
	return len(b.is.trees) == 0 || !isFirst && len(now) > 0
}

// delayOf returns how long a process's first thread has waited for a CPU; ok is false if the kernel doesn't
// count that.
func delayOf(root fs.FS, pid int) (d time.Duration, ok bool) {
	text, _ := fs.ReadFile(root, procFile(pid, "schedstat")) // if the process has ended, nothing is read
	return process.ParseQueued(text)
}

func (b *Backend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sockets != nil {
		b.sockets.Close()
		b.sockets = nil
	}
}
