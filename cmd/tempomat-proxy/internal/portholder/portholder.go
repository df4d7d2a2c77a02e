// Package portholder finds out which processes listen on a port of TCP, from /proc. It
// sees those of its own user only, unless it runs as root.
package portholder

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one that listens.
type Process struct {
	Name string // as the kernel has it: at most 15 bytes, which the process itself may choose
	PID  int
}

// String quotes the name, as it may hold anything.
func (p Process) String() string { return fmt.Sprintf("%q (process %d)", p.Name, p.PID) }

// Find returns the processes that listen on the port at any address, in the order of their
// numbers. proc is where /proc is mounted. There are none where nobody listens, where the
// system has no /proc, and where it does not let this process see them.
func Find(proc string, port int) []Process {
	sockets := listening(proc, port)
	if len(sockets) == 0 {
		return nil
	}
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	var found []Process
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && holds(dir, sockets) {
			name, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may have ended meanwhile
			found = append(found, Process{Name: strings.TrimSpace(string(name)), PID: pid})
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found
}

// listenState is TCP_LISTEN in the tables of /proc/net.
const listenState = "0A"

// listening are the sockets that listen on the port, as the links in /proc/PID/fd name
// them.
func listening(proc string, port int) map[string]bool {
	sockets := make(map[string]bool)
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			// number: local address, remote one, state, queues, timer, retransmits, user, timeout, inode
			fields := strings.Fields(string(line))
			if len(fields) < 10 || fields[3] != listenState {
				continue
			}
			_, at, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(at, 16, 16); err == nil && int(n) == port {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	return sockets
}

// holds is true if the process has one of the sockets open.
func holds(dir string, sockets map[string]bool) bool {
	files, _ := os.ReadDir(filepath.Join(dir, "fd"))
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, "fd", f.Name()))
		return err == nil && sockets[to]
	})
}
