package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"tempomat/proxy/errorpage"
)

// check reads the configuration and the files that it names, and prints a summary. If verbose is set, it
// prints every key instead.
func (s source) check(ctx context.Context, stdout io.Writer, verbose bool) error {
	if checked, err := s.checkAsService(ctx, stdout, verbose); checked {
		return err
	}
	cfg, err := s.load()
	if err != nil {
		return withNextStep(err)
	}
	var certificates bytes.Buffer
	if err := checkFiles(cfg, time.Now(), &certificates); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintf(stdout, "no configuration file (%s): the defaults apply\n", usualFile)
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

const setupHint = `"tempomat-proxy setup" shows what it would change on this machine; with -write, it makes the changes`

// withNextStep adds a hint to the error of a missing file.
func withNextStep(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nCheck the path, or make the file: %s", err, setupHint)
	}
	return err
}

// checkFiles reads the files that the configuration names, as the proxy does at the start, and prints the
// certificates. It returns errors that would prevent the proxy from starting. It prints errors that the proxy
// would only log as warnings.
func checkFiles(c *config.Config, now time.Time, out io.Writer) error {
	_, err := errorpage.Load(c.ErrorPages.Directory)
	databases, unusable := policy.Databases(c, mmdb.New(zap.NewNop()))
	other := checkSecrets(c, databases)
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
	warnEach(out, "", unusable)
	warnEach(out, "", sharing.CheckSecret(c))
	_, fault := readToken(c.Admin.Token)
	warnEach(out, "", fault)
	return nil
}

// checkSecrets reads the secrets that the proxy needs at the start, for exemptions and for Redis.
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
	// serviceFiles is the directory of the service's configuration.
	serviceFiles = "/etc/tempomat"
	serviceUnit  = "tempomat-proxy.service"
	// serviceUser is the user of the service if the administrator hasn't changed the unit.
	serviceUser = "tempomat"
	// checkWithin is the longest time that a check as another user may take.
	checkWithin = 30 * time.Second
)

// checkAsService repeats the check in a process of the service's user, if root checks a file of the service. Root
// can read every file, but the service's user might not be able to. checked is false if this process must check
// the file itself.
func (s source) checkAsService(ctx context.Context, stdout io.Writer, verbose bool) (checked bool, err error) {
	if os.Geteuid() != 0 || filepath.Dir(s.file) != serviceFiles {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	name, groups := unitUser(ctx)
	u, err := osuser.Lookup(name)
	if err != nil || u.Uid == "0" {
		return false, nil // the service isn't installed, or it runs as root
	}
	program, err := os.Executable()
	if err != nil {
		return false, nil // check it as root instead
	}
	return s.checkAs(ctx, program, u, groups, stdout, verbose)
}

// unitUser returns the user as which systemd runs the service (empty for root), and the additional groups in the
// service's unit.
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

// checkAs runs this program with -check as another user.
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
	// The process gets only tempomat's variables, because root's other variables may contain secrets.
	c.Env = slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return !strings.HasPrefix(v, "TEMPOMAT_") })
	var faults bytes.Buffer
	c.Stdout, c.Stderr, c.SysProcAttr = stdout, &faults, &syscall.SysProcAttr{Credential: who}
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return true, fmt.Errorf("the service (user %s) can't start with this configuration:\n%s", u.Username, strings.TrimSpace(faults.String()))
	}
	if err != nil {
		fmt.Fprintf(stdout, "warning: checked as root instead of as the service (user %s): %v\n", u.Username, err)
	}
	return err == nil, nil
}

// credential makes the credential of a process that runs as a user with additional groups.
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
