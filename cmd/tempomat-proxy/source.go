package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
)

// source is where the configuration comes from, again at each reload.
type source struct {
	file  string // empty: the defaults and the environment
	env   []string
	adapt func(*config.Config) // changes what was read; nil: nothing
}

// findFile returns the file to use. Only one that is named has to exist.
func findFile(named string) string {
	if named != "" {
		return named
	}
	for _, f := range []string{usualFile, originalFile} {
		if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
			return f
		}
	}
	return ""
}

func (s source) load() (c *config.Config, err error) {
	c, err = config.Load(s.file, s.env) // without a file: the defaults
	if err == nil && s.adapt != nil {
		s.adapt(c)
	}
	return c, err
}

// check prints what the configuration means: in short, or every key.
func (s source) check(ctx context.Context, stdout io.Writer, verbose bool) error {
	cfg, err := s.load()
	if err != nil {
		return withNextStep(err)
	}
	var certificates bytes.Buffer
	if err := errors.Join(s.refuseCircle(ctx, cfg, addresses(cfg.Listen)), checkFiles(cfg, time.Now(), &certificates)); err != nil {
		return err
	}
	if err := s.checkAsService(ctx, certificates.String(), &certificates); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintf(stdout, "no configuration file (%s): these are the defaults\n", usualFile)
	} else {
		fmt.Fprintf(stdout, "%s is sound\n", s.file)
	}
	if verbose {
		cfg.Describe(stdout, policy.CPUs(cfg))
		_, err = certificates.WriteTo(stdout)
		return err
	}
	cfg.Summary(stdout, policy.CPUs(cfg))
	if _, err := certificates.WriteTo(stdout); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintln(stdout, setupHint)
	}
	fmt.Fprintln(stdout, `"tempomat-proxy -check -v" tells every key`)
	return nil
}

// findHost bounds the search for the addresses of the backend's name.
const findHost = 2 * time.Second

// refuseCircle is the error of a backend that the proxy serves itself, at one of these addresses: where sockets
// were handed over, or a reload cannot change them, these are others than listen names. The configuration has
// its own check, which asks the system nothing.
func (s source) refuseCircle(ctx context.Context, c *config.Config, served []string) error {
	local, _ := net.InterfaceAddrs() // without them the loopback's are known
	system := config.System{
		Find: func(host string) []netip.Addr {
			ctx, cancel := context.WithTimeout(ctx, findHost)
			defer cancel()
			found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // a request that comes back is found out, too
			for i, a := range found {
				found[i] = a.Unmap().WithZone("")
			}
			return found
		},
		Own: func(a netip.Addr) bool {
			return a.IsLoopback() || slices.ContainsFunc(local, func(l net.Addr) bool {
				n, ok := l.(*net.IPNet)
				return ok && n.IP.Equal(a.AsSlice())
			})
		},
	}
	for _, address := range served {
		if c.Backend.IsServedAt(address, system) {
			return fmt.Errorf("%s: backend: %s: is the proxy's own address, as it listens on %s: requests would go in a circle. "+
				"Give the address of the web server", cmp.Or(s.file, "defaults"), c.Backend.URL, address)
		}
	}
	return nil
}

const setupHint = `"tempomat-proxy setup" shows what it would change on this machine, and writes it with -write`

// withNextStep says what to do where the file is not there.
func withNextStep(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\n%s; without -config the defaults run", err, setupHint)
	}
	return err
}
