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

// manager receives a service's messages to systemd (NOTIFY_SOCKET), and keeps sockets like systemd's file descriptor
// store: it can keep several sockets with the same name, and removes all of them together. Systemd keeps a socket only
// once, but the manager doesn't notice that two descriptors belong to the same socket.
type manager struct {
	t       *testing.T
	notify  string
	read    int // number of messages that were read
	closing sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	kept map[string][]*os.File
	said []notice
}

// notice is a message of a process.
type notice struct {
	text string
	pid  int
}

// closesAfter is how long removed sockets stay open, even after all messages were received.
const closesAfter = 50 * time.Millisecond

func startManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, notify: filepath.Join(tempDir(t), "notify"), kept: make(map[string][]*os.File)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	testkit.Must(t, err)
	raw, err := conn.SyscallConn()
	testkit.Must(t, err)
	testkit.Must(t, raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1) }))
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
	messages, _ := syscall.ParseSocketControlMessage(control) // a message that can't be read has none
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
		m.closing.Go(func() { // like systemd, which uses a thread to close them
			time.Sleep(closesAfter)
			closeFiles(forgotten)
		})
	}
	closeFiles(sent) // closing the descriptor of a barrier reports that the barrier was reached
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// next waits for the next message.
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

// keeps waits until all messages are received, and returns the kept files in the form that the next process gets, and
// their names.
func (m *manager) keeps() (files []*os.File, names []string) {
	m.t.Helper()
	testkit.Must(m.t, (handover.Store{Notify: m.notify}).Wait())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.kept)) {
		for _, f := range m.kept[name] {
			files, names = append(files, m.duplicate(f)), append(names, name)
		}
	}
	return files, names
}

// duplicate duplicates a descriptor. Unlike Fd, it leaves the socket's flags unchanged, because the process that serves
// the socket shares them.
func (m *manager) duplicate(f *os.File) *os.File {
	m.t.Helper()
	raw, err := f.SyscallConn()
	testkit.Must(m.t, err)
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

// begin starts the program with everything that the manager keeps.
func (m *managed) begin() {
	m.t.Helper()
	files, names := m.keeps()
	m.handOver(files, names, "NOTIFY_SOCKET="+m.notify)
	closeFiles(files) // the process has its own descriptors
}

// begins starts the program and waits until it serves.
func (m *managed) begins() {
	m.t.Helper()
	m.begin()
	m.serves()
}

// names returns the names of the kept sockets, each once, because the manager doesn't notice duplicates.
func (m *managed) names() string {
	m.t.Helper()
	files, names := m.keeps()
	closeFiles(files)
	return strings.Join(slices.Compact(names), " ")
}
