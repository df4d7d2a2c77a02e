// Command harm plays ordinary loads on a real Apache with PHP, directly and through tempomat-proxy, in pairs. It
// reports results that are worse with the proxy: more answers fail, fewer answers arrive per second, or, if a load
// leaves CPUs and workers idle, requests wait longer. It exits with status 1 if anything is worse.
//
// Run it as root, so Apache and the proxy run as separate users. The proxy then estimates the cost of requests, like
// the package without additional rights. With -told, the proxy may read the cost from the kernel.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Beyond these limits, a result counts as worse.
const (
	moreFailed = 0.002
	leastRate  = 0.95
	mostTimes  = 1.1
	mostLonger = 20 * time.Millisecond
)

func main() {
	bin := flag.String("bin", "bin", "directory of tempomat-proxy")
	here := flag.String("dir", "testdata/harm", "directory of this program")
	only := flag.String("only", "", "parts of the names of the loads to play, separated by commas; empty: all")
	backends := flag.String("backends", "prefork,fpm", "prefork: with mod_php; fpm: event with php-fpm")
	pairs := flag.Int("pairs", 3, "how often to play each load with the proxy and without it")
	told := flag.Bool("told", false, "run the proxy as root, so the kernel shows it what requests cost")
	flag.Parse()
	runtime.LockOSThread() // the programs that this thread starts end with it (Pdeathsig)
	var worse []string
	for backend := range strings.SplitSeq(*backends, ",") {
		r := &rig{bin: *bin, here: *here, fpm: backend == "fpm", told: *told}
		more, err := r.run(backend, *only, *pairs)
		if err != nil {
			fmt.Fprintln(os.Stderr, "harm:", err)
			os.Exit(2)
		}
		worse = append(worse, more...)
	}
	if len(worse) > 0 {
		fmt.Println("worse with the proxy:\n  " + strings.Join(worse, "\n  "))
		os.Exit(1)
	}
	fmt.Println("nothing is worse with the proxy")
}

// rig is a private Apache and the proxy in front of it.
type rig struct {
	bin, here, dir string
	fpm, told      bool
	apache, proxy  string // addresses
	running        []*exec.Cmd
}

func (r *rig) run(backend, only string, pairs int) (worse []string, err error) {
	if r.dir, err = os.MkdirTemp("", "harm-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.dir) //nolint:errcheck // a temporary directory
	defer r.stopBackend()
	if err := errors.Join(os.Chmod(r.dir, 0o755), r.site()); err != nil { //nolint:gosec // others read it
		return nil, err
	}
	for _, s := range scenarios() {
		if !slices.ContainsFunc(strings.Split(only, ","), func(part string) bool { return strings.Contains(s.name, part) }) {
			continue
		}
		var with, without []map[string]figures
		for range pairs {
			if err := r.startBackend(); err != nil {
				return worse, err
			}
			without = append(without, r.play(s, r.apache))
			if err := r.startBackend(); err != nil {
				return worse, err
			}
			proxy, err := r.startProxy()
			if err != nil {
				return worse, err
			}
			with = append(with, r.play(s, r.proxy))
			stop(proxy)
		}
		worse = append(worse, s.compare(backend, without, with)...)
	}
	return worse, nil
}

// site writes the files that Apache serves.
func (r *rig) site() error {
	www := filepath.Join(r.dir, "www")
	err := os.CopyFS(www, os.DirFS(filepath.Join(r.here, "www")))
	err = errors.Join(err, os.Mkdir(filepath.Join(www, "s"), 0o755)) //nolint:gosec // others read it
	for i := range 8 {
		file := filepath.Join(www, "s", strconv.Itoa(i))
		err = errors.Join(err,
			os.WriteFile(file+".css", []byte(strings.Repeat("a{color:red}\n", 1843)), 0o644), //nolint:gosec // others read it
			os.WriteFile(file+".png", make([]byte, 20000), 0o644))                            //nolint:gosec // others read it
	}
	return err
}

func (r *rig) stopBackend() {
	for _, c := range r.running {
		stop(c)
	}
	r.running = nil
}

// startBackend restarts the backend, or starts it if it isn't running. A server keeps the processes that it has forked
// for a load for a while, so without a restart, a later load would begin with more processes.
func (r *rig) startBackend() error {
	r.stopBackend()
	php := newest("/usr/lib/apache2/modules/libphp*.so")
	fpm := newest("/usr/sbin/php-fpm*")
	apache, err := exec.LookPath("/usr/sbin/apache2")
	if err != nil || php == "" || r.fpm && fpm == "" {
		return errors.New("Apache or PHP is missing: apt-get install apache2-bin libapache2-mod-php php-fpm")
	}
	r.apache, r.proxy = freePort(), freePort()
	_, port, _ := net.SplitHostPort(r.apache)
	values := map[string]string{"DIR": r.dir, "PORT": port, "MODULES": filepath.Dir(php), "PHP": php, "RUNAS": "www-data"}
	text, err := os.ReadFile(filepath.Join(r.here, "apache.conf"))
	if err != nil {
		return err
	}
	// The values are written into the file, as on a server, because the proxy reads them there.
	config := filepath.Join(r.dir, "apache.conf")
	text = []byte(os.Expand(string(text), func(name string) string { return values[name] }))
	if err := os.WriteFile(config, text, 0o644); err != nil { //nolint:gosec // others read it
		return err
	}
	args := []string{"-f", config, "-DFOREGROUND"}
	if os.Getuid() == 0 {
		args = append(args, "-DROOT")
	}
	if r.fpm {
		if err := r.startFPM(fpm); err != nil {
			return err
		}
		args = append(args, "-DFPM")
	}
	return r.start(exec.Command(apache, args...), r.apache)
}

// startFPM starts php-fpm as in Debian, except for its number of children: five would be too few.
func (r *rig) startFPM(program string) error {
	config := filepath.Join(r.dir, "fpm.conf")
	text := fmt.Sprintf("[global]\nerror_log = %[1]s/fpm.log\n[www]\nlisten = %[1]s/fpm.sock\nlisten.mode = 0666\n"+
		"pm = dynamic\npm.max_children = 100\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n"+
		"php_admin_value[post_max_size] = 300M\nphp_admin_value[memory_limit] = 512M\n", r.dir)
	args := []string{"-F", "-y", config}
	if os.Getuid() == 0 {
		text += "user = www-data\ngroup = www-data\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // others read it
		return err
	}
	return r.start(exec.Command(program, args...), "")
}

func newest(pattern string) string {
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close() //nolint:errcheck // only its number is needed
	return l.Addr().String()
}

// start starts a program. If an address is given, start waits until the program answers there.
func (r *rig) start(c *exec.Cmd, address string) error {
	log, err := os.OpenFile(filepath.Join(r.dir, filepath.Base(c.Path)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the program keeps it open
	c.Stdout, c.Stderr = log, log
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setpgid = true // Apache's prefork ends its whole process group
	c.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if err := c.Start(); err != nil {
		return err
	}
	r.running = append(r.running, c)
	for range 100 {
		if address == "" {
			return nil
		}
		if got, err := http.Get("http://" + address + "/s/0.css"); err == nil { //nolint:noctx // a private server
			got.Body.Close() //nolint:errcheck // not read
			if got.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%s doesn't answer: %s", c.Path, text)
}

func stop(c *exec.Cmd) {
	if c.ProcessState == nil {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}
}

// startProxy starts a proxy without any learned state.
func (r *rig) startProxy() (*exec.Cmd, error) {
	state := filepath.Join(r.dir, "state")
	config := filepath.Join(r.dir, "tempomat.yaml")
	text := fmt.Sprintf("listen: %q\nbackend: http://%s\ntrustedProxies: [192.0.2.1/32]\nthrottle: {mode: fair}\nstate: %s/s\n"+
		"admin: {listen: \"unix:%[3]s/admin.sock\"}\n", r.proxy, r.apache, state)
	if err := errors.Join(
		os.RemoveAll(state), os.Mkdir(state, 0o700), os.WriteFile(config, []byte(text), 0o644), //nolint:gosec // others read it
	); err != nil {
		return nil, err
	}
	program, err := filepath.Abs(filepath.Join(r.bin, "tempomat-proxy"))
	if err != nil {
		return nil, err
	}
	c := exec.Command(program, "-config", config) //nolint:gosec // chosen by the caller
	if os.Getuid() == 0 && !r.told {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		if err := os.Chown(state, uid, gid); err != nil {
			return nil, err
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}} //nolint:gosec // small
	}
	return c, r.start(c, r.proxy)
}

// figures are the results of one kind of request.
type figures struct {
	n            int
	rate, failed float64
	p50, p95     time.Duration
}

func (f figures) String() string {
	return fmt.Sprintf("%5d, %7.2f/s, p50 %6.3f s, p95 %6.3f s, %5.1f %% failed", f.n, f.rate, f.p50.Seconds(), f.p95.Seconds(), 100*f.failed)
}

// play plays a load once.
func (r *rig) play(s scenario, address string) map[string]figures {
	time.Sleep(2 * time.Second) // time for the backend to start its spare processes
	if s.burns {
		for range runtime.NumCPU() {
			c := exec.Command("nice", "-n", strconv.Itoa(s.nice), "sh", "-c", "while :; do :; done") //nolint:gosec // a constant command
			if err := c.Start(); err == nil {
				defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
			}
		}
	}
	l := load{base: "http://" + address}
	took := l.play(s.groups, s.lasts).Seconds()
	all := map[string]figures{}
	for kind, answers := range byKind(l.answers) {
		var times []time.Duration
		f := figures{n: len(answers)}
		for _, a := range answers {
			if a.ok {
				times = append(times, a.took)
			} else if !a.late {
				f.failed += 1 / float64(f.n)
			}
		}
		if slices.Sort(times); len(times) > 0 {
			f.p50, f.p95 = times[len(times)/2], times[len(times)*95/100]
		}
		f.rate = float64(len(times)) / took
		all[kind] = f
	}
	return all
}

func byKind(answers []answer) map[string][]answer {
	all := map[string][]answer{}
	for _, a := range answers {
		all[a.kind] = append(all[a.kind], a)
	}
	return all
}

// compare prints the medians of each kind of request, and returns those that are worse.
func (s scenario) compare(backend string, without, with []map[string]figures) (worse []string) {
	fmt.Printf("%s, %s\n", s.name, backend)
	for _, kind := range slices.Sorted(maps.Keys(without[0])) {
		a, b := medians(kind, without), medians(kind, with)
		fmt.Printf("  %-16s without %v\n  %-16s with    %v\n", kind, a, "", b)
		for _, x := range []struct {
			what string
			is   bool
		}{
			{"fail", b.failed > a.failed+moreFailed},
			{"fewer", b.rate < cmp.Or(s.rate, leastRate)*a.rate && kind != "crawl"},
			{"slower", s.spare && b.p95 > time.Duration(cmp.Or(s.slack, mostTimes)*float64(a.p95))+mostLonger},
		} {
			if x.is {
				worse = append(worse, fmt.Sprintf("%s, %s, %s: %s", s.name, backend, kind, x.what))
			}
		}
	}
	return worse
}

// medians returns the medians of several runs.
func medians(kind string, runs []map[string]figures) figures {
	return figures{
		n:      median(kind, runs, func(f figures) int { return f.n }),
		rate:   median(kind, runs, func(f figures) float64 { return f.rate }),
		failed: median(kind, runs, func(f figures) float64 { return f.failed }),
		p50:    median(kind, runs, func(f figures) time.Duration { return f.p50 }),
		p95:    median(kind, runs, func(f figures) time.Duration { return f.p95 }),
	}
}

func median[T cmp.Ordered](kind string, runs []map[string]figures, of func(figures) T) T {
	var all []T
	for _, r := range runs {
		all = append(all, of(r[kind]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
