package host

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

// machine is a file system with the processes and cgroups of a test.
type machine struct {
	fstest.MapFS
	mu *sync.Mutex // a test changes files while a Backend reads them
}

// Open implements fs.FS.
func (m machine) Open(name string) (fs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MapFS.Open(name)
}

// ReadFile implements fs.ReadFileFS.
func (m machine) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MapFS.ReadFile(name)
}

// Stat implements fs.StatFS.
func (m machine) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MapFS.Stat(name)
}

// ReadDir implements fs.ReadDirFS.
func (m machine) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.MapFS.ReadDir(name)
}

func newMachine() machine {
	m := machine{tree(map[string]string{
		"proc/self/mounts": "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"proc/self/cgroup": "0::/system.slice/tempomat-proxy.service\n",
	}), new(sync.Mutex)}
	return m
}

func (m machine) file(name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.MapFS[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

// process adds or changes a process. cpu is its CPU use in CPU-seconds, including that of its children that
// have ended.
func (m machine) process(pid, parent int, command string, cpu float64, nice int, group string) {
	program, _, _ := strings.Cut(command, " ")
	name := strings.TrimSuffix(program[strings.LastIndexByte(program, '/')+1:], ":")
	m.file(procFile(pid, "stat"), fmt.Sprintf("%d (%s) S %d 0 0 0 0 0 0 0 0 0 %d 0 0 0 20 %d 1 0 %d 0", pid, name, parent, int(cpu*100), nice, 1000+pid))
	if strings.Contains(command, ":") {
		m.file(procFile(pid, "cmdline"), command)
	} else {
		m.file(procFile(pid, "cmdline"), strings.ReplaceAll(command, " ", "\x00")+"\x00")
	}
	m.file(procFile(pid, "comm"), name+"\n")
	m.file(procFile(pid, "schedstat"), "1 0 3\n")
	m.file(procFile(pid, "cgroup"), "0::"+group+"\n")
	m.children(parent)
}

// children writes the list of a process's children.
func (m machine) children(of int) {
	var all []string
	for _, p := range processes(m) {
		if p.Parent == of {
			all = append(all, fmt.Sprint(p.PID))
		}
	}
	m.file(procFile(of, fmt.Sprintf("task/%d/children", of)), strings.Join(all, " "))
}

func (m machine) end(pid, parent int) {
	m.mu.Lock()
	for name := range m.MapFS {
		if strings.HasPrefix(name, procFile(pid, "")) {
			delete(m.MapFS, name)
		}
	}
	m.mu.Unlock()
	m.children(parent)
}

func (m machine) group(name string, cpu float64, more string) {
	m.file("sys/fs/cgroup"+name+"/cpu.stat", fmt.Sprintf("usage_usec %d\n%s", int64(cpu*1e6), more))
}

const (
	apacheGroup = "/system.slice/apache2.service"
	fpmGroup    = "/system.slice/php8.2-fpm.service"
)

// apache adds an Apache that listens at port 8080, with two children.
func (m machine) apache(group, conf string) {
	m.process(1, 0, "/sbin/init", 0, 0, "/init.scope")
	m.process(10, 1, "/usr/sbin/apache2 -k start", 0, 0, group)
	m.process(11, 10, "/usr/sbin/apache2 -k start", 0, 0, group)
	m.process(12, 10, "/usr/sbin/apache2 -k start", 0, 0, group)
	m.file("etc/apache2/apache2.conf", "Listen 127.0.0.1:8080\n"+conf)
}

func (m machine) fpm() {
	m.process(20, 1, debianMaster, 0, 0, fpmGroup)
	m.process(21, 20, "php-fpm: pool www", 0, 0, fpmGroup)
	m.file("etc/php/8.2/fpm/php-fpm.conf", debianGlobal)
	m.file("etc/php/8.2/fpm/pool.d/www.conf", debianPool)
}

const (
	withPHP = "LoadModule mpm_prefork_module x\nLoadModule php_module x\nMaxRequestWorkers 150\n"
	withFPM = "LoadModule mpm_event_module x\nMaxRequestWorkers 400\n<FilesMatch x>\nSetHandler \"proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost\"\n</FilesMatch>\n"
)

// TestWhoTheBackendIs finds the server that listens at an address, how many workers it has, and the
// programs that it passes requests to. A php-fpm that gets none of them doesn't count.
func TestWhoTheBackendIs(t *testing.T) {
	const fpm = `php-fpm's pm.max_children of pool "www"`
	for name, c := range map[string]struct {
		make func(m machine)
		port string
		want string
	}{
		"prefork with mod_php": {func(m machine) { m.apache(apacheGroup, withPHP) }, "8080",
			"150 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service], trees [], whole true"},
		"beside a php-fpm": {func(m machine) { m.apache(apacheGroup, withPHP); m.fpm() }, "8080",
			"150 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service], trees [], whole true"},
		"event and php-fpm": {func(m machine) { m.apache(apacheGroup, withFPM); m.fpm() }, "8080",
			"5 by " + fpm + ", forks [10 20], groups [apache2.service php8.2-fpm.service], trees [], whole true"},
		"both, and mod_php serves": {func(m machine) { m.apache(apacheGroup, withPHP+withFPM); m.fpm() }, "8080",
			"400 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service], trees [], whole true"},
		"php-fpm does not run": {func(m machine) { m.apache(apacheGroup, withFPM) }, "8080",
			"400 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service], trees [], whole false"},
		"it hands to another server": {func(m machine) { m.apache(apacheGroup, withPHP+"ProxyPass / http://127.0.0.1:3000/\n") }, "8080",
			"150 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service], trees [], whole false"},
		"with a database": {func(m machine) {
			m.apache(apacheGroup, withPHP)
			m.process(30, 1, "/usr/sbin/mariadbd", 0, 0, "/system.slice/mariadb.service")
		}, "8080", "150 by Apache's MaxRequestWorkers, forks [10], groups [apache2.service mariadb.service], trees [], whole true"},
		"without services": {func(m machine) { m.apache("/", withPHP) }, "8080",
			"150 by Apache's MaxRequestWorkers, forks [10], groups [], trees [10], whole true"},
		"in one's own service": {func(m machine) { m.apache("/system.slice/tempomat-proxy.service", withPHP) }, "8080",
			"150 by Apache's MaxRequestWorkers, forks [10], groups [], trees [10], whole true"},
		"at another port": {func(m machine) { m.apache(apacheGroup, withPHP); m.fpm() }, "8081",
			"0 by , forks [], groups [], trees [], whole false"},
		"nginx and php-fpm": {func(m machine) {
			m.process(40, 1, "nginx: master process /usr/sbin/nginx -c /srv/n.conf", 0, 0, "/system.slice/nginx.service")
			m.process(41, 40, "nginx: worker process", 0, 0, "/system.slice/nginx.service")
			m.file("srv/n.conf", "http { server { listen 8080; fastcgi_pass unix:/var/run/php/php8.2-fpm.sock; } }")
			m.fpm()
		}, "8080", "5 by " + fpm + ", forks [40 20], groups [nginx.service php8.2-fpm.service], trees [], whole true"},
		"php-fpm and another server": {func(m machine) { m.apache(apacheGroup, withFPM+"ProxyPass /push http://127.0.0.1:7867/\n"); m.fpm() }, "8080",
			"400 by Apache's MaxRequestWorkers, forks [10 20], groups [apache2.service php8.2-fpm.service], trees [], whole false"},
		"nginx, php-fpm and another server": {func(m machine) {
			m.process(40, 1, "nginx: master process nginx -c /srv/n.conf", 0, 0, "/system.slice/nginx.service")
			m.file("srv/n.conf", "http { server { listen 8080; fastcgi_pass unix:/run/php/php8.2-fpm.sock; location /push { proxy_pass http://127.0.0.1:7867; } } }")
			m.fpm()
		}, "8080", "0 by , forks [40 20], groups [nginx.service php8.2-fpm.service], trees [], whole false"},
		"nginx, php-fpm and tempomat": {func(m machine) {
			m.process(40, 1, "nginx: master process nginx -c /srv/n.conf", 0, 0, "/system.slice/nginx.service")
			m.file("srv/n.conf", "http { server { listen 443 ssl; location / { proxy_pass http://127.0.0.1:8888; } } server { listen 8080; fastcgi_pass unix:/run/php/php8.2-fpm.sock; } }")
			m.fpm()
		}, "8080", "5 by " + fpm + ", forks [40 20], groups [nginx.service php8.2-fpm.service], trees [], whole true"},
		"nginx alone": {func(m machine) {
			m.process(40, 1, "nginx: master process nginx -c /srv/n.conf", 0, 0, "/")
			m.file("srv/n.conf", "http { server { listen 8080; } }")
		}, "8080", "0 by , forks [40], groups [], trees [40], whole true"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			c.make(m)
			l, _ := listenerAt("127.0.0.1:" + c.port)
			is := identify(m, processes(m), l, queue{})
			for i, dir := range is.groups {
				is.groups[i] = dir[strings.LastIndexByte(dir, '/')+1:]
			}
			testkit.Same(t, c.want, fmt.Sprintf("%d by %s, forks %v, groups %v, trees %v, whole %v", is.workers, is.by, is.forks, is.groups, is.trees, is.whole), "it finds")
		})
	}
}

// lookAfter shows the backend's CPU use in a look that comes d later.
func (b *Backend) lookAfter(now *time.Time, d time.Duration) string {
	*now = now.Add(d)
	o := b.own(*now)
	return fmt.Sprintf("%.2f, niced %.2f, waits %.2f, lacked %.2f", o.CPU, o.Niced, o.Waits, o.Lacked)
}

// TestWhatTheBackendsProcessesUse adds up a master, its children, and those children that have ended.
// Other processes don't count.
func TestWhatTheBackendsProcessesUse(t *testing.T) {
	m := newMachine()
	m.apache("/", withPHP)
	m.process(30, 1, "/usr/bin/redis-server", 0, 0, "/")
	m.file(procFile(30, "schedstat"), "1 9000000000 3\n")
	m.process(99, 1, "/usr/bin/burn", 1000, 19, "/")
	l, _ := listenerAt("8080")
	b := &Backend{root: m, is: identify(m, processes(m), l, queue{})}
	now := time.Unix(1, 0)
	next := func(what, want string) {
		t.Helper()
		testkit.Same(t, want, b.lookAfter(&now, time.Second), "%s", what)
	}
	next("the first look", "-1.00, niced 0.00, waits -1.00, lacked -1.00")
	m.process(11, 10, "/usr/sbin/apache2 -k start", 0.4, 0, "/")
	m.process(99, 1, "/usr/bin/burn", 1002, 19, "/")
	m.process(30, 1, "/usr/bin/redis-server", 0.1, 0, "/")
	m.file(procFile(30, "schedstat"), "1 99000000000 3\n")
	next("a child, a database and somebody else", "0.50, niced 0.00, waits 0.00, lacked 0.00")
	m.process(12, 10, "/usr/sbin/apache2 -k start", 0.3, 5, "/")
	m.process(13, 10, "/usr/sbin/apache2 -k start", 0.1, 0, "/")
	m.file(procFile(12, "schedstat"), "1 150000000 3\n")
	m.file(procFile(13, "schedstat"), "1 50000000 3\n")
	next("one that is niced, and a new one", "0.40, niced 0.30, waits 0.20, lacked 0.20")
	m.end(11, 10)
	m.process(10, 1, "/usr/sbin/apache2 -k start", 0.6, 0, "/")
	next("one has ended, having used more", "0.20, niced 0.00, waits 0.00, lacked 0.00")
	m.file(procFile(12, "schedstat"), "1 2150000000 3\n")
	next("it waits, twice at a time", "0.00, niced 0.00, waits 1.00, lacked 2.00")
	delete(m.MapFS, procFile(12, "schedstat"))
	next("the kernel does not tell", "0.00, niced 0.00, waits -1.00, lacked -1.00")
}

// TestWhatTheBackendsGroupsUse reads the kernel's counters of services, and how long a process in
// them waited for a CPU.
func TestWhatTheBackendsGroupsUse(t *testing.T) {
	m := newMachine()
	m.apache(apacheGroup, withFPM)
	m.fpm()
	l, _ := listenerAt("8080")
	b := &Backend{root: m, is: identify(m, processes(m), l, queue{}), groups: map[string]*group{}}
	now := time.Unix(1, 0)
	next := func(what string, web, php float64, more string, waited int, want string) {
		t.Helper()
		m.group(apacheGroup, web, "")
		m.group(fpmGroup, php, more)
		m.file("sys/fs/cgroup"+apacheGroup+"/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n")
		m.file("sys/fs/cgroup"+fpmGroup+"/cpu.pressure", fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", waited))
		testkit.Same(t, want, b.lookAfter(&now, time.Second), "%s", what)
	}
	next("the first look", 100, 200, "", 0, "-1.00, niced 0.00, waits -1.00, lacked -1.00")
	m.file(procFile(21, "schedstat"), "1 300000000 3\n")
	next("both", 100.1, 200.5, "", 250_000, "0.60, niced 0.00, waits 0.25, lacked 0.30")
	m.process(22, 20, "php-fpm: pool www", 0, 10, fpmGroup)
	m.file("sys/fs/cgroup"+fpmGroup+"/cgroup.procs", "20\n21\n22\n")
	next("some process has stepped down, and nobody counts that", 100.1, 200.9, "", 250_000, "0.40, niced 0.40, waits 0.00, lacked 0.00")
	next("the kernel begins to count it", 100.1, 201.4, "nice_usec 5000000\n", 250_000, "0.50, niced 6.00, waits 0.00, lacked 0.00")
	next("it counts it", 100.1, 201.9, "nice_usec 5100000\n", 250_000, "0.50, niced 0.10, waits 0.00, lacked 0.00")
	next("it was restarted", 100.1, 0.5, "", 0, "-1.00, niced 0.00, waits -1.00, lacked -1.00")
	b.is.whole = false
	next("others compute for it", 100.2, 0.6, "", 0, "-1.00, niced 0.10, waits -1.00, lacked -1.00")
	if o := (*Backend)(nil).own(now); !(o.CPU < 0 && o.Waits < 0 && o.Niced == 0) || math.IsNaN(o.CPU) {
		t.Errorf("nobody is looked at: %+v", o)
	}
}

// learner records its calls.
type learner struct {
	mu   sync.Mutex
	told []string
}

func (l *learner) Backlog(_ time.Time, queued, processes, _ int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprintf("%d wait of %d", queued, processes))
}

func (l *learner) Found(_ time.Time, workers int, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprintf("%d by %s", workers, by))
}

// take returns the last call, and the number of calls since the last take.
func (l *learner) take() (last string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = len(l.told); n > 0 {
		last = l.told[n-1]
	}
	l.told = nil
	return last, n
}

// TestBackend has connections wait at a web server and at the php-fpm that it passes requests to.
// Those that wait at another php-fpm don't count.
func TestBackend(t *testing.T) {
	b, err := OpenBackend()
	testkit.Must(t, err)
	var at []*net.TCPAddr
	for n := range 3 {
		l := testkit.Listen(t)
		at = append(at, l.Addr().(*net.TCPAddr))
		dial(t, "tcp", at[n].String(), []int{1, 2, 4}[n])
		waitQueue(t, b.sockets, listener{port: uint16(at[n].Port)}, []int{1, 2, 4}[n])
	}
	m := newMachine()
	m.apache("/", "")
	m.fpm()
	conf := func(threads int) {
		m.file("etc/apache2/apache2.conf", fmt.Sprintf("Listen %s\nLoadModule mpm_event_module x\nThreadsPerChild %d\n", at[0], threads))
	}
	conf(10)
	b.root = m
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var l learner
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx, &l) }()
		next := func(what string, d time.Duration, want string, times int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got, n := l.take(); got != want || times >= 0 && n != times {
				t.Errorf("%s: told %d times, at last %q; want %d and %q", what, n, got, times, want)
			}
		}
		next("no backend yet", lookEvery/2, "", 0)
		b.Watch(&url.URL{Scheme: "http", Host: at[0].String()})
		next("its queue", 2*queueEvery, "1 wait of 0", 2)
		next("it is found", lookEvery, "1 wait of 2", -1)
		conf(20)
		next("its configuration was changed, and it has not read that", 2*lookEvery, "1 wait of 2", -1)
		for _, told := range l.told {
			t.Error(told)
		}
		m.process(11, 10, "/usr/sbin/apache2 -k start", 0, 0, "/")
		m.end(11, 10)
		m.end(12, 10)
		m.process(13, 10, "/usr/sbin/apache2 -k start", 0, 0, "/")
		b.mu.Lock()
		before := b.is.workers
		b.mu.Unlock()
		next("a reload", lookEvery+queueEvery, "1 wait of 1", -1)
		b.mu.Lock()
		if b.is.workers != 320 || before != 160 {
			t.Errorf("%d workers after a reload, %d before it", b.is.workers, before)
		}
		b.mu.Unlock()
		m.file("etc/apache2/apache2.conf", fmt.Sprintf("Listen %s\nProxyPass / fcgi://%s/\n", at[0], at[1]))
		m.file("etc/php/8.2/fpm/pool.d/www.conf", fmt.Sprintf("[www]\nlisten = %s\npm.max_children = 5\n", at[1]))
		m.process(14, 10, "/usr/sbin/apache2 -k start", 0, 0, "/")
		m.end(13, 10)
		next("it hands to php-fpm", lookEvery+time.Second, "3 wait of 2", -1)
		b.Watch(&url.URL{Scheme: "http", Host: "php.example"})
		next("it is elsewhere", lookEvery, "", 0)
		cancel()
		<-done
		if _, _, _, ok := b.Sample(); ok {
			t.Error("the queues are left open")
		}
	})
}

// TestCgroups finds a cgroup by its id, and decides which ones belong to another service.
func TestCgroups(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "cgroup", "system.slice", "a.service")
	testkit.Must(t, os.MkdirAll(at, 0o755))
	info, err := os.Stat(at)
	testkit.Must(t, err)
	testkit.Same(t, "/system.slice/a.service", cgroupNamed(os.DirFS(dir), "cgroup", inodeOfFile(info)), "its number is that of")
	testkit.Same(t, "", cgroupNamed(os.DirFS(dir), "cgroup", 1<<60), "no number is that of")
	for name, want := range map[string]bool{
		"/system.slice/apache2.service": true, "/": false, "": false, "/init.scope": false, "/user.slice": false,
		"/user.slice/user-0.slice/session-1.scope": false, "/user.slice/user-0.slice/session-11.scope": true,
	} {
		testkit.Same(t, want, isService(name, "/user.slice/user-0.slice/session-1.scope"), "%q is somebody else's", name)
	}
}

// TestFullPools counts the workers of the php-fpm pools at which connections wait, if they wait at only some.
func TestFullPools(t *testing.T) {
	b, err := OpenBackend()
	testkit.Must(t, err)
	defer b.close()
	b.root, b.known = newMachine(), true
	for n := range 3 { // a web server and two pools
		l := testkit.Listen(t)
		b.is.inner = append(b.is.inner, Pool{Children: []int{0, 5, 50}[n], at: listener{port: uint16(l.Addr().(*net.TCPAddr).Port)}})
	}
	b.listener, b.is.inner = b.is.inner[0].at, b.is.inner[1:]
	next := func(what string, at listener, n int, want string) {
		t.Helper()
		dial(t, "tcp", fmt.Sprintf("127.0.0.1:%d", at.port), n)
		waitQueue(t, b.sockets, at, n)
		queued, _, full, ok := b.Sample()
		testkit.Same(t, want, fmt.Sprint(queued, full, ok), "%s", what)
	}
	next("no connection waits", b.listener, 0, "0 0 true")
	next("two wait at the small pool", b.is.inner[0].at, 2, "2 5 true")
	next("another waits at the web server", b.listener, 1, "3 0 true")
	b.listener.port = 0
	next("one waits at the large pool, and the web server isn't seen", b.is.inner[1].at, 1, "3 0 true")
}
