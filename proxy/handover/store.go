package handover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Store is the service manager, which can keep a service's listening sockets while no process of the service runs.
// A client that connects then waits instead of being refused. The next process gets the sockets, with their names
// (LISTEN_FDS). This is the file descriptor store of systemd.service(5) and sd_pid_notify_with_fds(3).
//
// A manager that doesn't keep sockets doesn't report this, and the methods then return no error. They may be
// called concurrently.
type Store struct {
	Notify string // socket of the service manager (NOTIFY_SOCKET); empty: there is no manager, and no messages are sent
}

const (
	// longestName is the longest name that the manager accepts, in bytes.
	longestName = 255
	// storeAnswers is how long to wait for the manager to handle a message.
	storeAnswers = 5 * time.Second
)

// Keep asks the manager to keep a socket; kept is true if the manager was asked. Keep skips unix sockets,
// because their files may be removed with the service's directory, so that clients can't find them.
func (m Store) Keep(s Socket) (kept bool, err error) {
	name := s.name()
	if _, isTCP := s.Listener.(*net.TCPListener); !isTCP || m.Notify == "" || len(name) > longestName {
		return false, nil
	}
	err = withDescriptors([]Socket{s}, nil, func(fds []uintptr) error {
		return m.tell("FDSTORE=1\nFDNAME="+name, fds)
	})
	return err == nil, err
}

// Forget asks the manager to drop the socket of an address. If this process has closed the socket as well,
// the port becomes free shortly after Wait returns, because systemd closes descriptors in another thread.
func (m Store) Forget(address string) error {
	return m.tell("FDSTOREREMOVE=1\nFDNAME="+(&Socket{Address: address}).name(), nil)
}

// Wait waits until the manager has handled all messages, but only for a few seconds.
func (m Store) Wait() error {
	if m.Notify == "" {
		return nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	err = m.tell("BARRIER=1", []uintptr{theirs.Fd()})
	_ = theirs.Close()
	if err != nil {
		return err
	}
	// The manager closes its end when it handles the message.
	if err := ours.SetReadDeadline(time.Now().Add(storeAnswers)); err != nil {
		return err
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the service manager did not confirm tempomat's messages: %w", err)
	}
	return nil
}

// tell sends the manager a message, with descriptors.
func (m Store) tell(state string, fds []uintptr) error {
	if m.Notify == "" {
		return nil
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // over a connected socket, package net sends no descriptors
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(storeAnswers)); err != nil {
		return err
	}
	var rights []byte
	for _, fd := range fds {
		rights = append(rights, syscall.UnixRights(int(fd))...)
	}
	_, _, err = conn.WriteMsgUnix([]byte(state), rights, &net.UnixAddr{Name: m.Notify, Net: "unixgram"})
	return err
}
