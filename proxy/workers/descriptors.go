package workers

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

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

// find returns the process's descriptor of a socket, and how many it has looked at; negative:
// it has none.
func (p proc) find(pid int, inode uint32) (at, looked int, err error) {
	at = -1
	err = p.each(pid, func(fd int, link string) bool {
		looked++
		if socketOf(link) == inode {
			at = fd
		}
		return at < 0
	})
	return at, looked, err
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
