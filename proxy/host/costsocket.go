package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// CostSocket is the unix socket to which workers report.
type CostSocket struct {
	conn *net.UnixConn
}

// OpenCostSocket makes the socket, and replaces one whose process no longer exists. Every user may write to it,
// because messages without a valid request number are ignored.
func OpenCostSocket(path string) (*CostSocket, error) {
	if err := removeStaleSocket(path, "unixgram"); err != nil {
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		}), err)
	}
	if err == nil {
		err = os.Chmod(path, 0o666) //nolint:gosec // see above
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	return &CostSocket{conn: c}, nil
}

// run receives the workers' messages until the context ends.
func (e *CostSocket) run(ctx context.Context, c *claims, numbers *Numbers) {
	stop := context.AfterFunc(ctx, func() { _ = e.conn.Close() })
	defer stop()
	var text [64]byte
	pace := rate.NewLimiter(messagesRate, messagesBurst)
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for ctx.Err() == nil {
		n, m, _, _, err := e.conn.ReadMsgUnix(text[:], oob)
		now := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			pause(ctx, time.Second)
		default:
			c.note(now, numbers, sender(oob[:m]), text[:n])
		}
		if !pace.AllowN(now, 1) {
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// sender returns the process that sent a message, according to the kernel; 0: unknown, or in another PID
// namespace.
func sender(oob []byte) int {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for i := range all {
		if cred, err := unix.ParseUnixCredentials(&all[i]); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}
