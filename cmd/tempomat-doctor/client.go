package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"tempomat/config"
	"tempomat/proxy/admin/api"
)

const (
	listenVariable = "TEMPOMAT_ADMIN_LISTEN" // environment variable with the proxy's admin.listen
	answerTimeout  = time.Minute             // longer than a reload may take in the proxy
	maxAnswer      = 64 << 20                // bytes; 10,000 rows take about 3 MB
)

// client sends requests to the admin API of a running program.
type client struct {
	program string // tempomat-proxy or tempomat-master
	name    string // the path of its Unix socket, or host:port
	naming  string // the flag or the variable that selects the socket, for messages
	base    string // the beginning of its documents' URLs
	token   string // for requests over TCP
	closed  error  // why no requests can be sent to the program; nil if they can
	http    *http.Client
}

// newClient returns a client for an address: the path of a Unix socket, or the URL of admin.web.
func newClient(program, address, naming, token string) *client {
	transport := &http.Transport{DisableKeepAlives: true} // the doctor makes few requests
	c := &client{program: program, naming: naming, http: &http.Client{
		Transport: transport, Timeout: answerTimeout,
		// A redirect must not carry the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if isURL(address) {
		c.base = strings.TrimSuffix(address, "/")
		_, c.name, _ = strings.Cut(c.base, "://")
		c.token = token
		return c
	}
	c.name, c.base = strings.TrimPrefix(address, "unix:"), "http://tempomat"
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.name)
	}
	return c
}

func isURL(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// ofMaster returns a fleet that is only the master, at the socket that the flag names or the default one.
func (d *doctor) ofMaster(context.Context) (*fleet, error) {
	if len(d.sockets) > 1 || d.wholeFleet {
		return nil, errOneSocket
	}
	socket := config.DefaultMaster().Admin.Listen
	if len(d.sockets) > 0 {
		socket = d.sockets[0]
	}
	return &fleet{all: []*client{newClient(masterProgram, socket, "--socket", "")}}, nil
}

var errOneSocket = errors.New("this command works with only one program: give one --socket, and omit --fleet")

// understand decodes the answer to a request for path.
func understand(path string, body []byte, reply any) error {
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("can't read the answer to %s: %w", path, err)
	}
	return nil
}

// send sends a request, and returns the document of the answer unchanged. It returns an error if the answer
// has an error status or an unknown version of the admin API.
func (c *client) send(ctx context.Context, method, path string, query url.Values, document io.Reader) ([]byte, error) {
	if c.closed != nil {
		return nil, c.closed
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), document) //nolint:gosec // the user chose the host
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if document != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req) //nolint:gosec // the same
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	var said api.ErrorReply
	if err := json.Unmarshal(body, &said); err != nil || said.Version == 0 {
		return nil, fmt.Errorf("%s answered, but isn't the admin API of %s (%s)", c.name, c.program, resp.Status)
	}
	if said.Version != api.Version {
		return nil, fmt.Errorf("%s has version %d of the admin API, but this tempomat-doctor has version %d. "+
			"Install both from the same release", c.program, said.Version, api.Version)
	}
	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(said.Error, "no such path") {
		return nil, fmt.Errorf("%s doesn't support %s because it is older than this tempomat-doctor. Install both from the same release", c.program, path)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &refusal{resp.StatusCode, said.Error}
	}
	return bytes.TrimSpace(body), nil
}

// refusal is an answer with an error status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// unreachable explains why a connection failed, and what to do about it.
func (c *client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("can't connect to %s: there is no such socket. Is %s running? "+
			"If its admin.listen names another socket, give that socket with %s", c.name, c.program, c.naming)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("can't connect to %s: nothing answers there. Is %s running?", c.name, c.program)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("can't connect to %s: permission denied. Run this command as root, or join the socket's group, which ls -l shows", c.name)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s on %s didn't answer in time", c.program, c.name)
	}
	return fmt.Errorf("can't ask %s on %s: %w", c.program, c.name, err)
}
