// Package unixsocket opens Unix sockets to listen on.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// socketMode lets a unix socket's owner and group connect, nobody else: who
// connects there is trusted.
const socketMode = 0o660

// ListenUnix opens a unix socket. It makes the directory if that is missing,
// and takes the place of a socket file that a dead process left behind, never
// of one that somebody answers on nor of another kind of file. Closing the
// listener removes the file.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	// Who may connect is for the socket's own mode to say.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return nil, err
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// Linux gives the file the mode that the socket has when it is bound, less
	// the umask: so it is never open to more people, not even for a moment.
	// Where that is unknown, or not enough, setMode has to do.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := setMode(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// setMode gives a socket's file its mode. It does not follow a symbolic link, which
// somebody who may write in the directory could have put in its place.
func setMode(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not the socket any more that was opened there", path)
	}
	if info.Mode().Perm() == socketMode {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	// A link that is put there now leads to nothing outside of the directory.
	return errors.Join(root.Chmod(filepath.Base(path), socketMode), root.Close())
}

// removeStaleSocket removes the socket file at path if nobody answers there.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: not removed", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process already answers on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("whether another process answers on %s is unknown: %w", path, err)
	}
	return os.Remove(path)
}
