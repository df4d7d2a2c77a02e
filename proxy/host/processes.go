package host

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"tempomat/cpuaccount/process"
)

// Every user can see a process's name, command line, parent, CPU time and cgroup, unless /proc is
// mounted with hidepid.

// mostProcesses is how many processes of the machine are read.
const mostProcesses = 1 << 16

// mostDescriptors is how many descriptors of a process are read.
const mostDescriptors = 4096

func procFile(pid int, name string) string { return "proc/" + strconv.Itoa(pid) + "/" + name }

// processAt reads a process. ok is false if it has ended or is hidden.
func processAt(root fs.FS, pid int) (p process.Stat, ok bool) {
	text, err := fs.ReadFile(root, procFile(pid, "stat"))
	if err == nil {
		p, err = process.ParseStat(text)
	}
	return p, err == nil
}

// processes lists all processes.
func processes(root fs.FS) (all []process.Stat) {
	pids, _ := numbered(root, "proc", mostProcesses) // without /proc, no process is found
	for _, pid := range pids {
		if p, ok := processAt(root, pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// numbered returns the entries of a directory that are numbers: processes or descriptors.
func numbered(root fs.FS, dir string, most int) (all []int, err error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // an error doesn't matter after reading
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

// tops returns the processes whose name matches and whose parent's name doesn't. They are the masters, whose
// children do the work.
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

// children returns a process's children, except those that have ended and that the process has waited for.
func children(root fs.FS, pid int) (pids []int) {
	text, _ := fs.ReadFile(root, procFile(pid, "task/"+strconv.Itoa(pid)+"/children")) // if the process has ended, it has no children
	return numbers(text)
}

// numbers parses a list of process numbers.
func numbers(text []byte) (pids []int) {
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandLine returns a process's command line. If the process has set its own title, the title is the only word.
func commandLine(root fs.FS, pid int) []string {
	text := readSome(root, procFile(pid, "cmdline"), 8192)
	return strings.Split(strings.TrimRight(text, "\x00 "), "\x00")
}

// cgroupOf returns the path of a process's cgroup (version 2) below the mount point; empty: unknown.
func cgroupOf(root fs.FS, pid string) string {
	text, _ := fs.ReadFile(root, "proc/"+pid+"/cgroup") // if the process has ended, it has no cgroup
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return name
		}
	}
	return ""
}

// cgroups returns the mount point of version 2 cgroups, without a leading slash; empty: there is none.
func cgroups(root fs.FS) string {
	text, _ := fs.ReadFile(root, "proc/self/mounts") // without /proc, there is no mount point
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[2] == "cgroup2" {
			return strings.TrimPrefix(words[1], "/")
		}
	}
	return ""
}

// isService reports whether a cgroup belongs only to another service. It doesn't if it is the root cgroup,
// contains this process, or is init's, because init opens sockets for other programs.
func isService(name, own string) bool {
	return strings.HasPrefix(name, "/") && name != "/" && name != "/init.scope" && !strings.HasPrefix(own+"/", name+"/")
}

// mostCgroups is how many cgroups are searched.
const mostCgroups = 16384

// cgroupNamed returns the path of the cgroup with an id, which is the inode of its directory. It returns an
// empty string if there is no such cgroup below the mount point.
func cgroupNamed(root fs.FS, mount string, id uint64) (name string) {
	n := 0
	_ = fs.WalkDir(root, mount, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a cgroup that is gone doesn't end the search
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

// forwards reports whether a program of that name passes requests on to other programs. The CPU time of these
// programs is then part of the requests' cost.
func forwards(name string) bool {
	return slices.ContainsFunc([]string{"docker-proxy", "rootlessport", "slirp4netns", "pasta", "haproxy", "varnish", "hitch", "traefik", "caddy", "envoy", "squid", "nginx", "apache2", "httpd", "lighttpd", "openresty", "angie"},
		func(x string) bool { return strings.HasPrefix(name, x) })
}

// isDatabase reports whether a program of that name is a database.
func isDatabase(name string) bool {
	return slices.Contains([]string{"mariadbd", "mysqld", "postgres", "redis-server", "valkey-server", "memcached", "mongod"}, name)
}

// linkOf returns the target of a descriptor's link.
func linkOf(root fs.FS, pid, fd int) string {
	s, _ := fs.ReadLink(root, procFile(pid, "fd/"+strconv.Itoa(fd))) // a missing descriptor has no target
	return s
}

// socketOf returns the inode of the socket in a descriptor's link; 0: it isn't a socket.
func socketOf(link string) uint32 {
	text, ok := strings.CutPrefix(link, "socket:[")
	if !ok {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
	return uint32(n)
}

// eachDescriptor calls f for each descriptor of a process until f returns false. The error is
// fs.ErrPermission if this process isn't allowed to see them.
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

// descriptorOf returns a process's descriptor of a socket, or a negative number if the process has none. If
// descriptorOf can't find out, it also returns an error.
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

// servesMany reports whether a process waits for a client's connection together with others: through an epoll
// instance that contains the connection, or through an io_uring. A worker that serves one request at a time
// just reads its connection.
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
