package setup

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tempomat/proxy/host"
)

// findKeyGroup returns the group for private keys that this machine has.
func findKeyGroup() string {
	for _, name := range []string{proxyGroup, keyGroup} {
		if _, err := user.LookupGroup(name); err == nil {
			return name
		}
	}
	return ""
}

// keyNames are the private keys and the certificates that the servers' files name.
func (m *Machine) keyNames() (names []string) {
	add := func(words []string, directive string) {
		if len(words) == 2 && strings.EqualFold(words[0], directive) && filepath.IsAbs(words[1]) && !slices.Contains(names, words[1]) {
			names = append(names, words[1])
		}
	}
	if m.Apache != nil {
		for i := range m.Apache.Files {
			for _, x := range host.ParseApache(&m.Apache.Files[i]) {
				add(append([]string{x.Name}, x.Args...), "sslcertificatekeyfile")
				add(append([]string{x.Name}, x.Args...), "sslcertificatefile")
			}
		}
	}
	if m.Nginx != nil {
		if root, err := parseNginx(m.Nginx); err == nil {
			for _, s := range root.Walk() {
				add(s.Words, "ssl_certificate_key")
				add(s.Words, "ssl_certificate")
			}
		}
	}
	return names
}

// gatherKey finds what keeps the proxy from reading a file: on the way that its name
// goes, and on the way of the file that a symbolic link leads to.
func gatherKey(name, root, group string) (k KeyFile) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return KeyFile{Fault: err.Error()}
	}
	seen := map[string]bool{}
	for _, way := range []string{filepath.Dir(name), real} {
		for at := way; at != "/" && at != root && !seen[at]; at = filepath.Dir(at) {
			seen[at] = true
			if err := k.look(at, group); err != nil {
				return KeyFile{Fault: err.Error()}
			}
		}
	}
	return k
}

// look takes in who may use one file or directory.
func (k *KeyFile) look(at, group string) error {
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode()&os.ModeSymlink != 0 || !ok {
		return fmt.Errorf("the way to it goes through the link %s", at)
	}
	mode, needs := uint32(info.Mode().Perm()), uint32(groupReads)
	if info.IsDir() {
		needs = groupPasses
	}
	owner := groupName(s.Gid)
	switch {
	case mode&(needs>>3) != 0, owner == group && mode&needs != 0:
	case s.Gid == 0, owner == group:
		k.Needs = append(k.Needs, Access{Path: at, Group: owner, Mode: mode, Dir: info.IsDir()})
	case mode&needs != 0:
		k.Groups = append(k.Groups, owner)
	default:
		return fmt.Errorf("%s is the group %s's, which may not use it either", at, owner)
	}
	return nil
}

// groupName is a group's name, or its number if it has none.
func groupName(gid uint32) string {
	number := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}

// groupNumber is the reverse of groupName.
func groupNumber(name string) (int, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	return strconv.Atoi(name)
}

// groupsOf are the names of a user's groups; none if there is no such user.
func groupsOf(name string) (groups []string) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	ids, _ := u.GroupIds() // none is as good
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			groups = append(groups, g.Name)
		}
	}
	return groups
}
