package handover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// Keeper is the service manager, as it keeps listening sockets of a service for the time
// when no process of it runs: who connects then waits, and is not refused. The next
// process is handed them with those of a socket unit (LISTEN_FDS), under their names.
// This is the file descriptor store of systemd.service(5) and sd_pid_notify_with_fds(3).
//
// A manager that keeps nothing says nothing, and that is no error. The methods may be
// called concurrently.
type Keeper struct {
	Notify string // where the manager is told (NOTIFY_SOCKET); empty: there is none, and nothing is done
}

const (
	// keptPrefix begins the names of what is kept: a socket unit's are others.
	keptPrefix = "kept-"
	// longestName is the manager's bound of a name, in bytes.
	longestName = 255
	// keeperAnswers bounds how long the manager may take for a message: it has a queue.
	keeperAnswers = 5 * time.Second
)

// keptName is the name of the socket of an address. It must not have a colon, which
// separates names.
func keptName(address string) string { return keptPrefix + url.QueryEscape(address) }

// KeptAddress is the address of the socket that is kept under a name, as the
// configuration had it; ok tells whether it is such a name at all.
func KeptAddress(name string) (address string, ok bool) {
	escaped, ok := strings.CutPrefix(name, keptPrefix)
	if !ok {
		return "", false
	}
	address, err := url.QueryUnescape(escaped)
	return address, err == nil && address != ""
}

// Keep has a socket kept; kept tells whether the manager was asked for it. Unix sockets
// are not kept: their files may go with the service's directory, and nobody finds them
// then.
func (k Keeper) Keep(s Socket) (kept bool, err error) {
	name := keptName(s.Address)
	if _, isTCP := s.Listener.(*net.TCPListener); !isTCP || k.Notify == "" || len(name) > longestName {
		return false, nil
	}
	err = withDescriptors([]Socket{s}, nil, func(fds []int) error {
		return k.tell("FDSTORE=1\nFDNAME="+name, fds)
	})
	return err == nil, err
}

// Forget has the socket of an address kept no longer. The port is free soon after Wait has
// returned, if it is closed here: systemd closes descriptors in a thread of their own.
func (k Keeper) Forget(address string) error {
	return k.tell("FDSTOREREMOVE=1\nFDNAME="+keptName(address), nil)
}

// Wait waits, some seconds at most, until the manager has done what it was told.
func (k Keeper) Wait() error {
	if k.Notify == "" {
		return nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	err = k.tell("BARRIER=1", []int{int(theirs.Fd())})
	_ = theirs.Close()
	if err != nil {
		return err
	}
	// The manager closes its end as it comes to the message.
	if err := ours.SetReadDeadline(time.Now().Add(keeperAnswers)); err != nil {
		return err
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the service manager does not come to what it was told: %w", err)
	}
	return nil
}

func (k Keeper) tell(state string, fds []int) error {
	if k.Notify == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: k.Notify, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(keeperAnswers)); err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
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
