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
)

// keyGroupNumber looks the group for private keys up.
func keyGroupNumber() (int, bool) {
	g, err := user.LookupGroup(keyGroup)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(g.Gid)
	return n, err == nil
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
			for _, x := range parseApache(&m.Apache.Files[i]) {
				add(append([]string{x.name}, x.args...), "sslcertificatekeyfile")
				add(append([]string{x.name}, x.args...), "sslcertificatefile")
			}
		}
	}
	if m.Nginx != nil {
		if root, err := parseNginx(m.Nginx); err == nil {
			for _, s := range root.walk() {
				add(s.words, "ssl_certificate_key")
				add(s.words, "ssl_certificate")
			}
		}
	}
	return names
}

// gatherKey finds what keeps the group for keys from reading one: on the way that its
// name goes, and on the way of the file that a symbolic link leads to.
func gatherKey(name, root string, group int) (k KeyFile) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return KeyFile{Fault: err.Error()}
	}
	for _, way := range []string{filepath.Dir(name), real} {
		for at := way; at != "/" && at != root; at = filepath.Dir(at) {
			info, err := os.Lstat(at)
			if err != nil {
				return KeyFile{Fault: err.Error()}
			}
			s, ok := info.Sys().(*syscall.Stat_t)
			if info.Mode()&os.ModeSymlink != 0 || !ok {
				return KeyFile{Fault: fmt.Sprintf("the way to it goes through %s, which is a link", at)}
			}
			mode, needs := uint32(info.Mode().Perm()), uint32(groupReads)
			if info.IsDir() {
				needs = groupPasses
			}
			open := mode&(needs>>3) != 0 || int(s.Gid) == group && mode&needs != 0
			if open || slices.ContainsFunc(k.Needs, func(a Access) bool { return a.Path == at }) {
				continue
			}
			k.Needs = append(k.Needs, Access{Path: at, Group: int(s.Gid), Mode: mode, Dir: info.IsDir()})
		}
	}
	return k
}
