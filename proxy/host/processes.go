package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A process shows everybody its name, its command line, its parent, what it has used of the
// CPUs and its cgroup, unless /proc is mounted with hidepid. No right is needed for that.

// mostProcesses are looked at.
const mostProcesses = 16384

// userHZ is what times in /proc are counted in, on every architecture that matters.
const userHZ = 100

// procStat is what /proc/PID/stat tells.
type procStat struct {
	pid, parent int
	name        string
	began       uint64  // ticks after the machine's start
	cpu         float64 // CPU-seconds, with those of the children that it has waited for
	isNiced     bool
	hasThreads  bool
}

// processAt reads one; not ok: it has ended, or is hidden.
func processAt(root fs.FS, pid int) (p procStat, ok bool) {
	text, err := fs.ReadFile(root, procFile(pid, "stat"))
	if err != nil {
		return p, false
	}
	return readProcess(text)
}

func procFile(pid int, name string) string { return "proc/" + strconv.Itoa(pid) + "/" + name }

// readProcess reads "7 (name) S 1 …": the name may have any characters.
func readProcess(text []byte) (p procStat, ok bool) {
	begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if begin < 1 || end < begin {
		return p, false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 20 {
		return p, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:begin])))
	number := func(i int) int64 { // as proc(5) counts the fields
		n, bad := strconv.ParseInt(fields[i-3], 10, 64)
		if bad != nil {
			err = bad
		}
		return n
	}
	p = procStat{pid: pid, name: string(text[begin+1 : end]), parent: int(number(4)), isNiced: number(19) > 0, hasThreads: number(20) > 1}
	for column := 14; column <= 17; column++ { // utime, stime, cutime, cstime
		p.cpu += float64(number(column)) / userHZ
	}
	p.began = uint64(max(0, number(22)))
	return p, err == nil
}

// delayOf is for how many seconds a process's first thread was kept from running as others had
// the CPUs; not ok: the kernel does not tell.
func delayOf(root fs.FS, pid int) (seconds float64, ok bool) {
	text, _ := fs.ReadFile(root, procFile(pid, "schedstat")) // ended: nothing
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, false
	}
	ns, err := strconv.ParseUint(fields[1], 10, 64)
	return float64(ns) / 1e9, err == nil
}

// processes lists all that there are.
func processes(root fs.FS) (all []procStat) {
	for _, pid := range processNumbers(root) {
		if p, ok := processAt(root, pid); ok {
			all = append(all, p)
		}
	}
	return all
}

func processNumbers(root fs.FS) (pids []int) {
	d, err := root.Open("proc")
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // it was only read
	dir, ok := d.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, _ := dir.ReadDir(mostProcesses)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tops are the processes of these names whose parent has another one: masters, whose
// children work.
func tops(all []procStat, is func(name string) bool) (found []procStat) {
	names := map[int]string{}
	for _, p := range all {
		names[p.pid] = p.name
	}
	for _, p := range all {
		if is(p.name) && names[p.parent] != p.name {
			found = append(found, p)
		}
	}
	return found
}

// children are the processes that a process has started and not waited for yet.
func children(root fs.FS, pid int) (pids []int) {
	text, _ := fs.ReadFile(root, procFile(pid, "task/"+strconv.Itoa(pid)+"/children")) // ended: none
	return numbers(text)
}

// numbers are those of processes that a file of the kernel's lists.
func numbers(text []byte) (pids []int) {
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandLine is that of a process; a title that it has taken is one word.
func commandLine(root fs.FS, pid int) []string {
	text := readSome(root, procFile(pid, "cmdline"), 8192)
	return strings.Split(strings.TrimRight(text, "\x00 "), "\x00")
}

// holds tells whether a process has a socket. Not known: the right is missing to see that.
func holds(root fs.FS, pid int, inode uint32) (is, known bool) {
	links, ok := root.(fs.ReadLinkFS)
	entries, err := fs.ReadDir(root, procFile(pid, "fd"))
	if !ok || err != nil || inode == 0 {
		return false, false
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for _, e := range entries {
		link, err := links.ReadLink(procFile(pid, "fd/"+e.Name()))
		if err == nil && link == want {
			return true, true
		}
	}
	return false, true
}

// cgroupOf is the path of a process's cgroup of version 2, below its mount point; empty: it
// is not to be seen.
func cgroupOf(root fs.FS, pid string) string {
	text, _ := fs.ReadFile(root, "proc/"+pid+"/cgroup") // ended: none
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return name
		}
	}
	return ""
}

// cgroups is where those of version 2 are mounted, without a slash in front; empty: nowhere.
func cgroups(root fs.FS) string {
	text, _ := fs.ReadFile(root, "proc/self/mounts") // none
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[2] == "cgroup2" {
			return strings.TrimPrefix(words[1], "/")
		}
	}
	return ""
}

// isService tells whether a cgroup is that of somebody else alone: not the root, nor one
// that this process is in, nor that of init, which makes sockets for others.
func isService(name, own string) bool {
	return strings.HasPrefix(name, "/") && name != "/" && name != "/init.scope" && !strings.HasPrefix(own+"/", name+"/")
}

// mostCgroups are looked through.
const mostCgroups = 16384

// cgroupNamed finds the cgroup of that number, which is its directory's inode; empty: it is
// not below the mount point.
func cgroupNamed(root fs.FS, mount string, id uint64) (name string) {
	n := 0
	_ = fs.WalkDir(root, mount, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a cgroup may have gone in the meantime: the others are looked at
		}
		if n++; n > mostCgroups {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err == nil && inodeOfFile(info) == id {
			name = "/" + strings.Trim(strings.TrimPrefix(at, mount), "/")
			return fs.SkipAll
		}
		return nil
	})
	return name
}

// forwards are servers that hand requests on to others, whose CPU time is not theirs.
func forwards(name string) bool {
	return slices.ContainsFunc([]string{"docker-proxy", "rootlessport", "slirp4netns", "pasta", "haproxy", "varnish", "hitch", "traefik", "caddy", "envoy", "squid", "nginx", "apache2", "httpd", "lighttpd", "openresty", "angie"},
		func(x string) bool { return strings.HasPrefix(name, x) })
}

// IsDatabase tells whether a process of that name works for those that ask it.
func IsDatabase(name string) bool {
	return slices.Contains([]string{"mariadbd", "mysqld", "postgres", "redis-server", "valkey-server", "memcached"}, name)
}

// proc is a directory with a process in each numbered one, as /proc.
type proc string

// mostDescriptors are looked at of a process.
const mostDescriptors = 4096

// pids are the processes that there are.
func (p proc) pids() (all []int) {
	d, err := os.Open(string(p))
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // it was only read
	names, _ := d.Readdirnames(1 << 16)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			all = append(all, pid)
		}
	}
	return all
}

func (p proc) at(pid int, more string) string {
	return string(p) + "/" + strconv.Itoa(pid) + "/" + more
}

// link is what a descriptor is of.
func (p proc) link(pid, fd int) string {
	s, _ := os.Readlink(p.at(pid, "fd/"+strconv.Itoa(fd))) // not there: it is of nothing
	return s
}

// socketOf is the inode of the socket that a descriptor is of; 0: of none.
func socketOf(link string) uint32 {
	text, ok := strings.CutPrefix(link, "socket:[")
	if !ok {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
	return uint32(n)
}

// each calls f for each descriptor of a process until f returns false. The error is an
// fs.ErrPermission where the right is missing to see them.
func (p proc) each(pid int, f func(fd int, link string) bool) error {
	d, err := os.Open(p.at(pid, "fd"))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it was only read
	names, _ := d.Readdirnames(mostDescriptors)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		link, err := os.Readlink(p.at(pid, "fd/"+name))
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err == nil && !f(fd, link) {
			return nil
		}
	}
	return nil
}

// find returns the process's descriptor of a socket; negative: it has none.
func (p proc) find(pid int, inode uint32) (at int) {
	at = -1
	_ = p.each(pid, func(fd int, link string) bool {
		if socketOf(link) == inode {
			at = fd
		}
		return at < 0
	})
	return at
}

// servesMany tells whether a process waits for that descriptor, a client's connection,
// together with others: by an epoll that has it, or by an io_uring. A worker that serves
// one request at a time reads its connection when it is its turn.
func (p proc) servesMany(pid, conn int) (many bool) {
	want := strconv.Itoa(conn)
	_ = p.each(pid, func(fd int, link string) bool {
		switch link {
		case "anon_inode:[io_uring]":
			many = true
		case "anon_inode:[eventpoll]":
			text, _ := os.ReadFile(p.at(pid, "fdinfo/"+strconv.Itoa(fd)))
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) > 1 && f[0] == "tfd:" && f[1] == want {
					many = true
				}
			}
		}
		return !many
	})
	return many
}
