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
	// queueEvery is how often the accept queues are measured: a reading takes some 30 µs,
	// and a queue shall be known before many more requests are sent into it.
	queueEvery = 100 * time.Millisecond
	// lookEvery is how often it is looked who the backend is. Only if its processes are others
	// than they were, its configuration is read.
	lookEvery = 5 * time.Second
	// lookRests is how much later it is for each process that was looked at, of 10 µs: a
	// hundredth of the time at most.
	lookRests = time.Millisecond
)

// Learner takes in what can be seen of a backend's workers.
type Learner interface {
	// Backlog: so many connections wait for a worker, and the backend has so many processes;
	// 0: that is not known.
	Backlog(now time.Time, queued, processes int)
	// Found: its configuration says how many workers it has at most, and what says so. 0: it
	// says nothing.
	Found(now time.Time, workers int, source string)
}

// Backend looks at the backend from outside, where it is on this machine: how many
// connections wait in front of its workers, how many of these its configuration gives it, and
// what its processes use of the CPUs. None of that takes a right. All methods may be called
// concurrently.
type Backend struct {
	root fs.FS

	mu       sync.Mutex // guards the following
	queue    *listenQueue
	listener listener
	known    bool // a backend is, and listener is where it listens
	seen     string
	is       identity
	last     map[int]then // by process
	looked   time.Time    // when that was
	groups   map[string]*group
}

// identity is what can be seen of which program the backend is.
type identity struct {
	inner   []listener // of php-fpm that it hands requests to
	forks   []int      // masters whose children work for it
	trees   []int      // of these and of databases, those that are in no cgroup of their own
	groups  []string   // directories of the cgroups of all others
	whole   bool       // no other process computes for it, as far as is known
	workers int
	by      string
}

// then is what a process had used, and for how long it had waited for a CPU, when it was looked at last.
type then struct {
	began      uint64
	cpu, delay time.Duration
}

// group is what a cgroup had when it was looked at last.
type group struct {
	cpu, niced float64
	pressure   cpuaccount.Pressure
}

// OpenBackend opens what is needed. Where the kernel does not tell about sockets, err says why,
// and nothing is known of any backend.
func OpenBackend() (*Backend, error) {
	b := &Backend{root: os.DirFS("/")}
	sockets, err := OpenSockets()
	if err == nil {
		b.queue = newListenQueue(sockets)
	}
	return b, err
}

// Watch sets the backend: http, https or unix, on this machine. With nil, or one
// elsewhere, nothing is told.
func (b *Backend) Watch(backend *url.URL) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listener, b.known, b.seen, b.is = listener{}, false, "", identity{}
	if backend != nil {
		b.listener, b.known = listenerOf(backend)
	}
}

// Run tells the learner until the context ends, and closes what is open. It calls one method at
// a time.
func (b *Backend) Run(ctx context.Context, learner Learner) {
	defer b.close()
	queues := time.NewTicker(queueEvery)
	defer queues.Stop()
	var next time.Time
	for now := time.Now(); ; {
		if !now.Before(next) {
			workers, by, n := b.look()
			if by != "" {
				learner.Found(now, workers, by)
			}
			next = now.Add(lookEvery + time.Duration(n)*lookRests)
		}
		select {
		case <-ctx.Done():
			return
		case now = <-queues.C:
			if queued, processes, ok := b.Sample(); ok {
				learner.Backlog(now, queued, processes)
			}
		}
	}
}

// Sample returns how many connections wait until the backend, or php-fpm behind it, accepts
// them, and while any do the number of processes; 0: unknown. Not ok: no listening process is
// seen. Even if none waits, no worker need be free: servers that accept at once queue inside.
func (b *Backend) Sample() (queued, processes int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known || b.queue == nil {
		return 0, 0, false
	}
	queued, ok = b.queue.length(b.listener)
	for _, l := range b.is.inner {
		more, also := b.queue.length(l)
		queued, ok = queued+more, ok || also
	}
	if queued > 0 {
		processes = len(b.workersLocked())
	}
	return queued, processes, ok
}

// workersLocked are the processes that the backend has; none: that is not known.
func (b *Backend) workersLocked() (pids []int) {
	for _, pid := range b.is.forks {
		pids = append(pids, children(b.root, pid)...)
	}
	if len(b.is.forks) > 0 {
		return pids
	}
	for _, dir := range b.is.groups {
		text, _ := fs.ReadFile(b.root, dir+"/cgroup.procs") // gone: none
		pids = append(pids, numbers(text)...)
	}
	return pids
}

// Workers are the processes that a backend has at that URL, as far as its configuration or its
// cgroup tells without a right.
func Workers(backend *url.URL) []int {
	b, err := OpenBackend()
	if err != nil {
		return nil
	}
	defer b.close()
	b.Watch(backend)
	b.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.workersLocked()
}

// look finds the backend among n processes, the number of its workers, and by what that is
// known; by is empty if the backend is the same as before.
func (b *Backend) look() (workers int, by string, n int) {
	b.mu.Lock()
	l, known, before := b.listener, b.known && b.queue != nil, b.seen
	var socket uint32
	var cgroup uint64
	if known {
		b.queue.length(l)
		socket, cgroup = b.queue.socket, b.queue.cgroup
	}
	b.mu.Unlock()
	if !known {
		return 0, "", 0
	}
	all := processes(b.root) // without the lock: it reads files
	seen := fingerprint(all, socket, cgroup)
	if seen == before {
		return 0, "", len(all)
	}
	found := identify(b.root, all, l, socket, cgroup)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known || b.listener.name != l.name || b.listener.port != l.port {
		return 0, "", 0 // another one was set in the meantime
	}
	if !slices.Equal(b.is.trees, found.trees) || b.groups == nil {
		b.last, b.groups = nil, map[string]*group{}
	}
	b.seen, b.is = seen, found
	return found.workers, cmp.Or(found.by, "nothing"), len(all)
}

func isApache(name string) bool { return name == "apache2" || name == "httpd" }
func isServer(name string) bool { return isApache(name) || name == "nginx" }

// fingerprint is another one when a server's master, or all of its children, were replaced: they
// have read their configuration then.
func fingerprint(all []process.Stat, socket uint32, cgroup uint64) string {
	var text strings.Builder
	fmt.Fprint(&text, socket, cgroup)
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
			oldest = 0 // its children come and go with connections
		}
		fmt.Fprint(&text, " ", m.PID, m.Start, oldest)
	}
	return text.String()
}

// identify finds the program that listens there, and those that compute for it.
func identify(root fs.FS, all []process.Stat, l listener, socket uint32, cgroup uint64) (is identity) {
	master, conf := serverAt(root, all, l, socket)
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
		if len(pools) > 0 {
			is.workers, is.by = workersOf(pools), tellPools(pools)
		}
		for _, p := range pools {
			if d, ok := listenerAt(p.Listen); ok && !d.meets(l) {
				is.inner = append(is.inner, d)
			}
			if !slices.ContainsFunc(members, func(m process.Stat) bool { return m.PID == p.master.PID }) {
				members = append(members, p.master)
			}
		}
		for _, m := range members {
			is.forks = append(is.forks, m.PID)
		}
	case cgroup != 0 && mount != "":
		name := cgroupNamed(root, mount, cgroup)
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

// serverAt finds the web server that listens there. If this process has the right to see which
// process has the socket, that decides; otherwise the configuration does.
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

// handsOn reports whether a process of a cgroup hands requests on to others.
func handsOn(root fs.FS, dir string) bool {
	text, _ := fs.ReadFile(root, dir+"/cgroup.procs") // gone: none
	for i, pid := range numbers(text) {
		name, err := fs.ReadFile(root, procFile(pid, "comm"))
		if err == nil && forwards(string(name)) || i > mostProcesses {
			return true
		}
	}
	return false
}

// own returns what the backend's processes have used since the last call. Of what was not seen
// at that, nothing is known yet.
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

// groupLocked adds up what a cgroup has used, and returns the part of the time in which a
// process in it waited for a CPU; negative: unknown.
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
	text, _ = fs.ReadFile(b.root, dir+"/cpu.pressure") // a kernel may be without
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

// hasNiced reports whether a process of a cgroup has a nice value.
func hasNiced(root fs.FS, dir string) bool {
	text, _ := fs.ReadFile(root, dir+"/cgroup.procs") // gone: none
	return slices.ContainsFunc(numbers(text), func(pid int) bool {
		p, ok := processAt(root, pid)
		return ok && p.Nice > 0
	})
}

// processesLocked adds up what masters and their children have used, and how long those that work for the
// backend have waited for a CPU. The use of a child that has ended is in its master's, which waited for it.
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
				areKnown = areKnown && told && p.Threads <= 1 // threads have a delay each
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

// delayOf is for how long a process's first thread was kept from running as others had the CPUs; not ok: the
// kernel does not tell.
func delayOf(root fs.FS, pid int) (d time.Duration, ok bool) {
	text, _ := fs.ReadFile(root, procFile(pid, "schedstat")) // ended: nothing
	return process.ParseQueued(text)
}

// size is of how many processes it is read what they used.
func (b *Backend) size() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.last)
}

func (b *Backend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil {
		b.queue.sockets.Close()
		b.queue = nil
	}
}
