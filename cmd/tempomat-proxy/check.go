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
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
)

// check prints what the configuration means: in short, or every key.
func (s source) check(ctx context.Context, stdout io.Writer, verbose bool) error {
	if checked, err := s.checkAsService(ctx, stdout, verbose); checked {
		return err
	}
	cfg, err := s.load()
	if err != nil {
		return withNextStep(err)
	}
	var certificates bytes.Buffer
	if err := errors.Join(s.refuseCircle(ctx, cfg, addresses(cfg.Listen)), checkFiles(cfg, time.Now(), &certificates)); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintf(stdout, "no configuration file (%s): these are the defaults\n", usualFile)
	} else {
		fmt.Fprintf(stdout, "%s is valid\n", s.file)
	}
	cfg.Describe(stdout, policy.CPUs(cfg), verbose)
	if _, err := certificates.WriteTo(stdout); err != nil {
		return err
	}
	if verbose {
		return nil
	}
	if s.file == "" {
		fmt.Fprintln(stdout, setupHint)
	}
	fmt.Fprintln(stdout, `"tempomat-proxy -check -v" prints every key`)
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
			return fmt.Errorf("%s: backend: %s: is the proxy's own address (listen %s): requests would go in a circle. "+
				"Give the address of the web server", cmp.Or(s.file, "defaults"), c.Backend.URL, address)
		}
	}
	return nil
}

const setupHint = `"tempomat-proxy setup" shows what it would change on this machine, and writes it with -write`

// withNextStep adds what to do if the file is missing.
func withNextStep(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\n%s; without -config the defaults run", err, setupHint)
	}
	return err
}

// checkFiles reads what the configuration names, as a start does, and prints which
// certificates there are. The error is what would keep the proxy from starting; what would
// only be logged is a warning.
func checkFiles(c *config.Config, now time.Time, out io.Writer) error {
	_, err := readPages(c)
	databases := mmdb.New(zap.NewNop())
	opened, other := policy.Databases(c, databases)
	other = errors.Join(other, checkSecrets(c, opened))
	e := newEncryption(zap.NewNop())
	fatal, faults := e.read(c)
	if fatal {
		return errors.Join(err, other, faults)
	}
	if err = errors.Join(err, other); err != nil {
		return err
	}
	for _, s := range e.store.States() {
		if s.Fault == "" {
			fmt.Fprintf(out, "certificate %s for %s, until %s\n", s.Certificate, strings.Join(s.Names, " "), s.Expires.UTC().Format(time.DateOnly))
			if !now.Before(s.Expires) {
				fmt.Fprintf(out, "warning: tls.certificates: %s has expired\n", s.Certificate)
			}
		}
	}
	warnEach(out, "tls.certificates: ", faults)
	warnEach(out, "", databases.Fault())
	warnEach(out, "", sharing.CheckSecret(c))
	_, fault := readToken(c.Admin.Token)
	warnEach(out, "", fault)
	return nil
}

// checkSecrets reads the files of secrets without which nothing starts: of exemptions, and Redis's.
func checkSecrets(c *config.Config, databases map[string]classify.Database) error {
	_, err := policy.Classifier(c, databases)
	if len(c.Coordination.Redis.Addresses) > 0 {
		_, redis := sharing.RedisOptions(c.Coordination)
		err = errors.Join(err, redis)
	}
	return err
}

// warnEach prints a warning for each line of an error.
func warnEach(out io.Writer, about string, err error) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(out, "warning: %s%s\n", about, strings.TrimSuffix(line, "\n"))
	}
}

const (
	// serviceFiles is the directory of the configurations that the service's units name.
	serviceFiles = "/etc/tempomat"
	serviceUnit  = "tempomat-proxy.service"
	// serviceUser is the user that runs it, unless the unit was changed.
	serviceUser = "tempomat"
	// checkWithin bounds how long a check as another user may take.
	checkWithin = 30 * time.Second
)

// checkAsService has the same check made by a process of the service's user if root asks for a file of the service's: root
// may read all files, and the service may not. checked is whether it was made.
func (s source) checkAsService(ctx context.Context, stdout io.Writer, verbose bool) (checked bool, err error) {
	if os.Geteuid() != 0 || filepath.Dir(s.file) != serviceFiles {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	name, groups := unitUser(ctx)
	u, err := osuser.Lookup(name)
	if err != nil || u.Uid == "0" {
		return false, nil // the service is not installed, or may read what root may
	}
	program, err := os.Executable()
	if err != nil {
		return false, nil // as root, then
	}
	return s.checkAs(ctx, program, u, groups, stdout, verbose)
}

// unitUser is the user as which systemd runs the service, empty for root, and its groups in
// addition to the user's own.
func unitUser(ctx context.Context) (name string, groups []string) {
	text, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState,User,SupplementaryGroups", serviceUnit).Output()
	lines := strings.Split(string(text), "\n")
	if err != nil || !slices.Contains(lines, "LoadState=loaded") {
		return serviceUser, nil
	}
	for _, l := range lines {
		switch key, value, _ := strings.Cut(l, "="); key {
		case "User":
			name = value
		case "SupplementaryGroups":
			groups = strings.Fields(value)
		}
	}
	return name, groups
}

// checkAs is the same check in a process of a user.
func (s source) checkAs(ctx context.Context, program string, u *osuser.User, groups []string, stdout io.Writer, verbose bool) (checked bool, err error) {
	who, err := credential(u, groups)
	if err != nil {
		return true, err
	}
	args := []string{"-check", "-config", s.file}
	if verbose {
		args = append(args, "-v")
	}
	c := exec.CommandContext(ctx, program, args...) //nolint:gosec // the program itself
	c.Dir = "/"
	// Of root's environment what is a setting only: the rest is none of that user's business.
	c.Env = slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return !strings.HasPrefix(v, "TEMPOMAT_") })
	var faults bytes.Buffer
	c.Stdout, c.Stderr, c.SysProcAttr = stdout, &faults, &syscall.SysProcAttr{Credential: who}
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return true, fmt.Errorf("the service (user %s) can't start with this:\n%s", u.Username, strings.TrimSpace(faults.String()))
	}
	if err != nil {
		fmt.Fprintf(stdout, "warning: checked as root, and not as the service (user %s): %v\n", u.Username, err)
	}
	return err == nil, nil
}

// credential is what a process of a user has, which is in some groups more.
func credential(u *osuser.User, more []string) (*syscall.Credential, error) {
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, name := range more {
		g, err := osuser.LookupGroup(name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g.Gid)
	}
	var ids []uint32
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(id))
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}
