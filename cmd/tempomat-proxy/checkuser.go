package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// serviceFiles is the directory of the configurations that the service's units name.
	serviceFiles = "/etc/tempomat"
	serviceUnit  = "tempomat-proxy.service"
	// serviceUser is whom that runs as, unless somebody has changed it.
	serviceUser = "tempomat"
	// checkWithin bounds how long a check of somebody else may take.
	checkWithin = 30 * time.Second
)

// checkAsService checks as the service's user what root has found sound: root may read all
// files, and the service may not. What root was told is in told; the rest goes to out. It
// does nothing unless root asks, and about a file of the service's.
func (s source) checkAsService(ctx context.Context, told string, out io.Writer) error {
	if os.Geteuid() != 0 || filepath.Dir(s.file) != serviceFiles {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	name, groups := unitUser(ctx)
	u, err := osuser.Lookup(name)
	if err != nil || u.Uid == "0" {
		return nil // the service is not installed, or may read what root may
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return s.checkAs(ctx, program, u, groups, told, out)
}

// unitUser is whom systemd runs the service as, empty for root, and in which groups beside
// the user's own.
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
func (s source) checkAs(ctx context.Context, program string, u *osuser.User, groups []string, told string, out io.Writer) error {
	who, err := credential(u, groups)
	if err != nil {
		return err
	}
	var theirs, faults bytes.Buffer
	c := exec.CommandContext(ctx, program, "-check", "-config", s.file) //nolint:gosec // the program itself
	c.Dir = "/"
	// Of root's environment what is a setting only: the rest is none of that user's business.
	c.Env = slices.DeleteFunc(append([]string{}, s.env...), func(v string) bool { return !strings.HasPrefix(v, "TEMPOMAT_") })
	c.Stdout, c.Stderr, c.SysProcAttr = &theirs, &faults, &syscall.SysProcAttr{Credential: who}
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return fmt.Errorf("you may read it all, and the service, which is the user %s, may not:\n%s", u.Username, strings.TrimSpace(faults.String()))
	}
	if err != nil {
		fmt.Fprintf(out, "warning: it was not checked what the service, which is the user %s, may read: %v\n", u.Username, err)
		return nil
	}
	for line := range strings.Lines(theirs.String()) {
		if strings.HasPrefix(line, "warning: ") && !strings.Contains(told, line) {
			fmt.Fprintf(out, "warning: for the service, which is the user %s: %s", u.Username, strings.TrimPrefix(line, "warning: "))
		}
	}
	return nil
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
