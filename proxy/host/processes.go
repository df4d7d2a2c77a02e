package host

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"tempomat/cpuaccount/process"
)

// Every user can see a process's name, command line, parent, CPU use and cgroup, unless /proc
// is mounted with hidepid.

// mostProcesses are looked at.
const mostProcesses = 1 << 16

// mostDescriptors are looked at of a process.
const mostDescriptors = 4096

func procFile(pid int, name string) string { return "proc/" + strconv.Itoa(pid) + "/" + name }

// processAt reads one; not ok: it has ended, or is hidden.
func processAt(root fs.FS, pid int) (p process.Stat, ok bool) {
	text, err := fs.ReadFile(root, procFile(pid, "stat"))
	if err == nil {
		p, err = process.ParseStat(text)
	}
	return p, err == nil
}

// processes lists all that there are.
func processes(root fs.FS) (all []process.Stat) {
	pids, _ := numbered(root, "proc", mostProcesses) // no /proc: none
	for _, pid := range pids {
		if p, ok := processAt(root, pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// numbered are those entries of a directory whose names are numbers: processes, or descriptors.
func numbered(root fs.FS, dir string, most int) (all []int, err error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // it was only read
	list, ok := d.(fs.ReadDirFile)
	if !ok {
		return nil, fs.ErrInvalid
	}
	entries, _ := list.ReadDir(most)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}

// tops are the processes of these names whose parent has another one: masters, whose
// children work.
func tops(all []process.Stat, is func(name string) bool) (found []process.Stat) {
	names := map[int]string{}
	for _, p := range all {
		names[p.PID] = string(p.Name)
	}
	for _, p := range all {
		if name := string(p.Name); is(name) && names[p.Parent] != name {
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

// isService reports whether a cgroup belongs to another service alone: not the root, nor one
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

// isDatabase reports whether a process of that name works for those that ask it.
func isDatabase(name string) bool {
	return slices.Contains([]string{"mariadbd", "mysqld", "postgres", "redis-server", "valkey-server", "memcached"}, name)
}

// linkOf is what a descriptor is of.
func linkOf(root fs.FS, pid, fd int) string {
	s, _ := fs.ReadLink(root, procFile(pid, "fd/"+strconv.Itoa(fd))) // not there: it is of nothing
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

// eachDescriptor calls f for each descriptor of a process until f returns false. The error is an
// fs.ErrPermission where the right is missing to see them.
func eachDescriptor(root fs.FS, pid int, f func(fd int, link string) bool) error {
	all, err := numbered(root, procFile(pid, "fd"), mostDescriptors)
	if err != nil {
		return err
	}
	for _, fd := range all {
		link, err := fs.ReadLink(root, procFile(pid, "fd/"+strconv.Itoa(fd)))
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err == nil && !f(fd, link) {
			return nil
		}
	}
	return nil
}

// descriptorOf returns the process's descriptor of a socket; negative: it has none, or, with an error,
// that is not known.
func descriptorOf(root fs.FS, pid int, inode uint32) (at int, err error) {
	at = -1
	err = eachDescriptor(root, pid, func(fd int, link string) bool {
		if socketOf(link) == inode {
			at = fd
		}
		return at < 0
	})
	return at, err
}

// servesMany reports whether a process waits for that descriptor, a client's connection,
// together with others: by an epoll that has it, or by an io_uring. A worker that serves
// one request at a time reads its connection when it is its turn.
func servesMany(root fs.FS, pid, conn int) (many bool) {
	want := strconv.Itoa(conn)
	_ = eachDescriptor(root, pid, func(fd int, link string) bool {
		switch link {
		case "anon_inode:[io_uring]":
			many = true
		case "anon_inode:[eventpoll]":
			text, _ := fs.ReadFile(root, procFile(pid, "fdinfo/"+strconv.Itoa(fd)))
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
