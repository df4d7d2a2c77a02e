// Package handovertest has a service manager that keeps sockets, for tests.
package handovertest

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Manager keeps what it is sent as systemd's file descriptor store does: what has the same
// name is kept next to it, and what is forgotten are all of a name. It does not see that two
// descriptors are the same socket, which systemd keeps once. Its methods may be called
// concurrently.
type Manager struct {
	Path string // for NOTIFY_SOCKET

	closing sync.WaitGroup

	mu   sync.Mutex // guards the following
	kept map[string][]*os.File
	said []string
}

// closesAfter is for how long what is forgotten stays open, though all that was said is heard.
const closesAfter = 50 * time.Millisecond

// StartManager starts one that ends with the test.
func StartManager(t *testing.T) *Manager {
	t.Helper()
	m := &Manager{Path: filepath.Join(t.TempDir(), "notify"), kept: make(map[string][]*os.File)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.Path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		text, control := make([]byte, 4096), make([]byte, 4096)
		for {
			n, nc, _, _, err := conn.ReadMsgUnix(text, control)
			if err != nil {
				return
			}
			m.hear(string(text[:n]), files(control[:nc]))
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		all.Wait()
		m.closing.Wait()
		m.Stop()
	})
	return m
}

func files(control []byte) (all []*os.File) {
	messages, _ := syscall.ParseSocketControlMessage(control) // none of what cannot be read
	for _, c := range messages {
		fds, _ := syscall.ParseUnixRights(&c)
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			all = append(all, os.NewFile(uintptr(fd), "kept"))
		}
	}
	return all
}

func (m *Manager) hear(message string, sent []*os.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, message)
	name := "stored"
	for line := range strings.Lines(message) {
		if n, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "FDNAME="); ok {
			name = n
		}
	}
	switch {
	case strings.HasPrefix(message, "FDSTORE=1\n"):
		m.kept[name] = append(m.kept[name], sent...)
		return
	case strings.HasPrefix(message, "FDSTOREREMOVE=1\n"):
		forgotten := m.kept[name]
		delete(m.kept, name)
		m.closing.Go(func() { // as systemd, which has a thread for it
			time.Sleep(closesAfter)
			closeAll(forgotten)
		})
	}
	closeAll(sent) // that of a barrier tells that this was reached
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Said is what it was told.
func (m *Manager) Said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.said)
}

// Kept is what it keeps, as the next process gets it, and the names of that. The files are
// closed with the test.
func (m *Manager) Kept(t *testing.T) (files []*os.File, names []string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.kept)) {
		for _, f := range m.kept[name] {
			its := duplicate(t, f)
			t.Cleanup(func() { _ = its.Close() })
			files, names = append(files, its), append(names, name)
		}
	}
	return files, names
}

// duplicate leaves the socket's flags alone, which Fd does not: the process that serves it
// has the same.
func duplicate(t *testing.T, f *os.File) *os.File {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var fd int
	var failed error
	if err := raw.Control(func(from uintptr) { fd, failed = syscall.Dup(int(from)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}

// Stop has it keep nothing more, as at the stop of the service.
func (m *Manager) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, files := range m.kept {
		closeAll(files)
		delete(m.kept, name)
	}
}
