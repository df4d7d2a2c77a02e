package admin

import (
	"context"
	"fmt"
	"net"
	"strings"

	"tempomat/proxy/host"
)

// Listen opens the admin API's unix socket; address is "unix:/path". It
// makes the directory if that is missing, and takes the place of a socket file
// that a dead process left behind, never of one that somebody answers on nor
// of another kind of file. Closing the listener removes the file.
func Listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok || path == "" {
		return nil, fmt.Errorf("admin.listen: %q is not a unix socket; allowed is unix:/path", address)
	}
	l, err := host.ListenUnix(context.Background(), path)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	return l, nil
}
