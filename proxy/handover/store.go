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

// Store is the service manager, which keeps listening sockets of a service while no process of
// it runs: a client that connects then waits, and is not refused. The next process is handed
// them (LISTEN_FDS), under their names. This is the file descriptor store of systemd.service(5)
// and sd_pid_notify_with_fds(3).
//
// A manager that keeps nothing does not report that, so it isn't an error. The methods may be
// called concurrently.
type Store struct {
	Notify string // where the manager is told (NOTIFY_SOCKET); empty: there is none, and nothing is done
}

const (
	// longestName is the manager's bound of a name, in bytes.
	longestName = 255
	// storeAnswers bounds how long the manager may take for a message: it has a queue.
	storeAnswers = 5 * time.Second
)

// Keep has a socket kept; kept tells whether the manager was asked for it. Unix sockets
// are not kept: their files may go with the service's directory, and nobody finds them
// then.
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

// Forget has the socket of an address kept no longer. The port is free soon after Wait has
// returned, if it is closed here: systemd closes descriptors in a thread of their own.
func (m Store) Forget(address string) error {
	return m.tell("FDSTOREREMOVE=1\nFDNAME="+(&Socket{Address: address}).name(), nil)
}

// Wait waits, some seconds at most, until the manager has done what it was told.
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
	// The manager closes its end as it comes to the message.
	if err := ours.SetReadDeadline(time.Now().Add(storeAnswers)); err != nil {
		return err
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the service manager did not take in its messages: %w", err)
	}
	return nil
}

func (m Store) tell(state string, fds []uintptr) error {
	if m.Notify == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.Notify, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(storeAnswers)); err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		all := make([]int, 0, len(fds))
		for _, fd := range fds {
			all = append(all, int(fd))
		}
		rights = syscall.UnixRights(all...)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	// WriteMsgUnix is not for datagrams of what is connected.
	if err := raw.Write(func(fd uintptr) bool {
		failed = syscall.Sendmsg(int(fd), []byte(state), rights, nil, 0)
		return !errors.Is(failed, syscall.EAGAIN)
	}); err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", failed)
}
