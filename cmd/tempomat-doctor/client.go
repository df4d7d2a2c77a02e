package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tempomat/config"
	"tempomat/proxy/admin/api"
)

const (
	listenVariable = "TEMPOMAT_ADMIN_LISTEN" // where the configuration's admin.listen can come from
	answerTimeout  = time.Minute             // longer than the proxy lets a reload wait
	maxAnswer      = 64 << 20                // bytes; 10,000 rows are some 3 MB
)

// client asks the admin API of a running program.
type client struct {
	program string // tempomat-proxy or tempomat-master
	path    string // of its unix socket
	naming  string // how else to name the socket
	off     bool   // the environment has the proxy open none
	http    *http.Client
}

// client finds the proxy's socket: the flag, else the environment, else the default.
func (d *doctor) client() *client {
	listen := d.socket
	if listen == "" {
		listen = variable(d.env, listenVariable)
	}
	c := newClient("tempomat-proxy", cmp.Or(listen, config.Default().Admin.Listen), "--socket or "+listenVariable)
	c.off = d.socket == "" && strings.EqualFold(listen, "off")
	return c
}

// masterClient finds the master's socket: the flag, else the default.
func (d *doctor) masterClient() *client {
	return newClient("tempomat-master", cmp.Or(d.socket, config.DefaultMaster().Admin.Listen), "--socket")
}

func newClient(program, listen, naming string) *client {
	path := strings.TrimPrefix(listen, "unix:")
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true, // a doctor's visit is short
	}
	return &client{program: program, path: path, naming: naming, http: &http.Client{Transport: transport, Timeout: answerTimeout}}
}

// stay keeps the connection from one question to the next, until the idle connections are closed.
func (c *client) stay() {
	if t, ok := c.http.Transport.(*http.Transport); ok {
		t.DisableKeepAlives = false
	}
}

// Get asks for a document and decodes it into reply: top's Source.
func (c *client) Get(ctx context.Context, path string, query url.Values, reply any) error {
	body, err := c.send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return understand(path, body, reply)
}

// understand decodes the answer to a path.
func understand(path string, body []byte, reply any) error {
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("can't read the answer to %s: %w", path, err)
	}
	return nil
}

// post sends a document and returns the answer as it came.
func (c *client) post(ctx context.Context, path string, document any) ([]byte, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, http.MethodPost, path, nil, bytes.NewReader(body))
}

// send asks, and returns the document as it came. An answer that is not a success of a known
// version is an error.
func (c *client) send(ctx context.Context, method, path string, query url.Values, document io.Reader) ([]byte, error) {
	if c.off {
		return nil, fmt.Errorf("%s is off: the proxy of this environment has no admin socket. Name another one with --socket", listenVariable)
	}
	target := url.URL{Scheme: "http", Host: "tempomat", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), document)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
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
		return nil, fmt.Errorf("%s answered, but not as %s does (%s)", c.path, c.program, resp.Status)
	}
	if said.Version != api.Version {
		return nil, fmt.Errorf("%s has version %d of the admin API, this doctor version %d. "+
			"Install both from the same release", c.program, said.Version, api.Version)
	}
	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(said.Error, "no such path") {
		return nil, fmt.Errorf("%s does not know %s: it is older than this doctor. Install both from the same release", c.program, path)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(said.Error)
	}
	return bytes.TrimSpace(body), nil
}

// unreachable says what a failed connection means and what to do about it.
func (c *client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("can't connect to %s: there is no such socket. Is %s running? "+
			"If its admin.listen is another one, name it with %s", c.path, c.program, c.naming)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("can't connect to %s: nothing answers there. Is %s running?", c.path, c.program)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("can't connect to %s: permission denied. %s", c.path, whoMay(c.path))
	}
	return fmt.Errorf("can't ask %s on %s: %w", c.program, c.path, err)
}

// whoMay says who may connect to a socket.
func whoMay(path string) string {
	const asRoot = "Run this as root"
	info, err := os.Stat(path)
	if err != nil { // not even its directory may be entered
		return asRoot
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return asRoot
	}
	group := strconv.FormatUint(uint64(stat.Gid), 10)
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return asRoot + ", or join the group " + group
}
