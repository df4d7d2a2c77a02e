package main

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

	"tempomat/internal/testkit"
	"tempomat/proxy/handover"
)

// manager hears what a service tells systemd (NOTIFY_SOCKET), and keeps sockets as its file descriptor store does: what
// has the same name is kept next to it, and what is forgotten are all of a name. It does not see that two descriptors are
// the same socket, which systemd keeps once.
type manager struct {
	t       *testing.T
	notify  string
	read    int // of what was said
	closing sync.WaitGroup

	mu   sync.Mutex // guards the following
	kept map[string][]*os.File
	said []notice
}

// notice is what a process has said.
type notice struct {
	text string
	pid  int
}

// closesAfter is for how long what is forgotten stays open, though all that was said is heard.
const closesAfter = 50 * time.Millisecond

func startManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, notify: filepath.Join(tempDir(t), "notify"), kept: make(map[string][]*os.File)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1) }); err != nil {
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
			m.hear(string(text[:n]), control[:nc])
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		all.Wait()
		m.closing.Wait()
		for _, files := range m.kept {
			closeFiles(files)
		}
	})
	return m
}

func (m *manager) hear(message string, control []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	said, sent := notice{text: message}, []*os.File(nil)
	messages, _ := syscall.ParseSocketControlMessage(control) // none of what cannot be read
	for _, c := range messages {
		if who, err := syscall.ParseUnixCredentials(&c); err == nil {
			said.pid = int(who.Pid)
		}
		fds, _ := syscall.ParseUnixRights(&c)
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			sent = append(sent, os.NewFile(uintptr(fd), "kept"))
		}
	}
	m.said = append(m.said, said)
	_, name, _ := strings.Cut(message, "\nFDNAME=")
	switch {
	case strings.HasPrefix(message, "FDSTORE=1\n"):
		m.kept[name] = append(m.kept[name], sent...)
		return
	case strings.HasPrefix(message, "FDSTOREREMOVE=1\n"):
		forgotten := m.kept[name]
		delete(m.kept, name)
		m.closing.Go(func() { // as systemd, which has a thread for it
			time.Sleep(closesAfter)
			closeFiles(forgotten)
		})
	}
	closeFiles(sent) // that of a barrier tells that this was reached
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// next waits for what is said next.
func (m *manager) next() (said notice) {
	m.t.Helper()
	testkit.Eventually(m.t, "systemd is told something", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.read == len(m.said) {
			return false
		}
		said = m.said[m.read]
		return true
	})
	m.read++
	return said
}

// keeps is what is kept when all that was told is heard, as the next process gets it, and the names of that.
func (m *manager) keeps() (files []*os.File, names []string) {
	m.t.Helper()
	if err := (handover.Store{Notify: m.notify}).Wait(); err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.kept)) {
		for _, f := range m.kept[name] {
			files, names = append(files, m.duplicate(f)), append(names, name)
		}
	}
	return files, names
}

// duplicate leaves the socket's flags alone, which Fd does not: the process that serves it has the same.
func (m *manager) duplicate(f *os.File) *os.File {
	m.t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		m.t.Fatal(err)
	}
	var fd int
	var failed error
	if err := raw.Control(func(from uintptr) { fd, failed = syscall.Dup(int(from)) }); err != nil || failed != nil {
		m.t.Fatal(err, failed)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}

// managed is a sidecar that a manager restarts.
type managed struct {
	*sidecarProcess
	*manager
	t *testing.T
}

func newManaged(t *testing.T, backend, yaml string) *managed {
	t.Helper()
	m := &managed{unstarted(t), startManager(t), t}
	m.configure(t, backend, yaml)
	return m
}

// begin starts the program with all that the manager keeps.
func (m *managed) begin() {
	m.t.Helper()
	files, names := m.keeps()
	m.handOver(files, names, "NOTIFY_SOCKET="+m.notify)
	closeFiles(files) // the process has its own
}

// begins starts it and waits until it serves.
func (m *managed) begins() {
	m.t.Helper()
	m.begin()
	m.serves()
}

// names are those of what is kept, each once: the manager does not see what it has.
func (m *managed) names() string {
	m.t.Helper()
	files, names := m.keeps()
	closeFiles(files)
	return strings.Join(slices.Compact(names), " ")
}
