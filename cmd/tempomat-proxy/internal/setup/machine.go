package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tempomat/proxy/host"
)

// Machine describes the machine before any decision is made. Its paths are those that the servers use. If Place has
// a root, the paths begin with the root.
type Machine struct {
	Place   Place
	Systemd bool    // systemd runs here
	Service Service // the unit of tempomat-proxy
	Sockets []host.Listening
	Apache  *Apache // nil: not installed
	Config  Config  // tempomat's configuration
	// Keys are the files with private keys and certificates that Apache's configuration names, and the users
	// who may read them.
	Keys map[string]KeyFile
	// KeyGroup is the group for keys that only root can read now: the proxy's own group, or Debian's
	// (ssl-cert). It is empty if neither group exists.
	KeyGroup string
	Journal  *journal // the changes that setup has made here; nil: none
	// JournalFault is the reason why the journal can't be read.
	JournalFault error
}

// Place is the machine, or a directory instead of its root, in which setup works.
type Place struct {
	Root                  string // prefix of each path; empty: this machine
	HTTP, HTTPS           int    // the public ports
	InnerHTTP, InnerHTTPS int    // ports to which Apache moves; if one is in use, the next free port
}

// Standard returns this machine, with the usual ports of the web.
func Standard() Place { return Place{HTTP: 80, HTTPS: 443, InnerHTTP: 8080, InnerHTTPS: 8443} }

// Service is the state of a systemd unit.
type Service struct{ Installed, Enabled, Active bool }

// Position is a line of a file, counted from 1.
type Position struct {
	Path string
	Line int
}

// Apache describes an Apache httpd in Debian's layout.
type Apache struct {
	Dir     string            // /etc/apache2
	Hosts   []Position        // each <VirtualHost> that Apache applies, according to Apache
	Files   []host.ConfigFile // each file that Apache reads, in its order
	Modules []string          // loaded modules, such as ssl_module
	Fault   string            // why Apache's configuration can't be read
}

// Config is tempomat's configuration file.
type Config struct {
	Exists   bool
	Text     string
	Defaults bool // the file sets only default values, like the package's file
}

// KeyFile describes the access to a private key or a certificate.
type KeyFile struct {
	// Needs are the file and its parent directories, as far as the proxy's group must get access to them.
	Needs []Access
	// Groups are the groups, other than KeyGroup, that own some of these.
	Groups []string
	Fault  string // why the proxy can't get access
}

// Access is the access of a group to a file or directory.
type Access struct {
	Path  string
	Group string // the group's name, or its number
	Mode  uint32 // permission bits
	Dir   bool
}

// command returns the shell command that grants this access.
func (a Access) command() string {
	return fmt.Sprintf("chgrp %s %s; chmod %04o %s", a.Group, a.Path, a.Mode, a.Path)
}

// Runner runs and ends programs.
type Runner interface {
	// Run returns the text that a program printed on standard output and standard error.
	Run(ctx context.Context, argv ...string) (string, error)
	// Terminate asks a process to end.
	Terminate(pid int) error
}

// Gather describes a machine. isDefault reports whether a configuration file of tempomat sets only default
// values.
func Gather(ctx context.Context, place Place, run Runner, isDefault func(file string) bool) Machine {
	m := Machine{Place: place, Sockets: host.Listeners(), Keys: map[string]KeyFile{}}
	m.Systemd = exists(systemdRuns(place))
	if m.Systemd {
		m.Service = service(ctx, run)
	}
	if m.Journal, m.JournalFault = loadJournal(journalFile(place)); errors.Is(m.JournalFault, fs.ErrNotExist) {
		m.JournalFault = nil
	}
	m.Apache = gatherApache(ctx, place, run)
	m.Config = gatherConfig(place, isDefault)
	m.KeyGroup = findKeyGroup()
	for _, key := range m.keyNames() {
		m.Keys[key] = gatherKey(key, place.Root, m.KeyGroup)
	}
	return m
}

// systemdRuns returns a path that exists only if systemd is running.
func systemdRuns(p Place) string { return p.Root + "/run/systemd/system" }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func service(ctx context.Context, run Runner) Service {
	ask := func(verb string) string {
		text, _ := run.Run(ctx, "systemctl", verb, unitName) // the output is enough, so the exit status is ignored
		return strings.TrimSpace(text)
	}
	enabled := ask("is-enabled")
	return Service{
		Installed: slices.Contains([]string{"enabled", "disabled", "static", "indirect", "masked", "enabled-runtime", "alias"}, enabled),
		Enabled:   enabled == "enabled", Active: ask("is-active") == "active",
	}
}

func gatherConfig(place Place, isDefault func(string) bool) Config {
	name := place.Root + "/etc/tempomat/tempomat.yaml"
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}
	}
	return Config{Exists: true, Text: string(text), Defaults: err == nil && isDefault(name)}
}

// hostLine matches a line of Apache's DUMP_VHOSTS, which ends in (file:line).
func hostLine() *regexp.Regexp { return regexp.MustCompile(`\((/[^()]*):([0-9]+)\)$`) }

func gatherApache(ctx context.Context, place Place, run Runner) *Apache {
	dir := place.Root + "/etc/apache2"
	if !exists(dir+"/apache2.conf") || !exists(dir+"/sites-enabled") {
		return nil
	}
	a := &Apache{Dir: dir}
	text, err := run.Run(ctx, "apache2ctl", "-t", "-D", "DUMP_VHOSTS", "-D", "DUMP_INCLUDES", "-D", "DUMP_MODULES")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "executable file not found") {
			return nil // Apache was removed, but not its configuration
		}
		a.Fault = lastLines(text, err)
		return a
	}
	hosts := hostLine()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if at := hosts.FindStringSubmatch(line); at != nil {
			n, _ := strconv.Atoi(at[2])                                        // the pattern matches only digits
			if host := (Position{at[1], n}); !slices.Contains(a.Hosts, host) { // Apache lists some sites twice
				a.Hosts = append(a.Hosts, host)
			}
		} else if len(words) == 2 && strings.HasPrefix(words[0], "(") && filepath.IsAbs(words[1]) {
			if f, err := readFile(words[1]); err != nil {
				a.Fault = err.Error()
			} else {
				a.Files = append(a.Files, f)
			}
		} else if len(words) == 2 && strings.HasSuffix(words[0], "_module") {
			a.Modules = append(a.Modules, words[0])
		}
	}
	return a
}

// readFile reads a file of Apache's configuration.
func readFile(name string) (host.ConfigFile, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return host.ConfigFile{}, err
	}
	text, err := os.ReadFile(real)
	return host.ConfigFile{Path: name, Real: real, Text: string(text)}, err
}

// lastLines returns the last lines that a program printed, which usually contain the reason for a failure.
func lastLines(text string, err error) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-3):]
	return strings.TrimSpace(strings.Join(lines, "; ") + " (" + err.Error() + ")")
}

// findKeyGroup returns the group for private keys that exists on this machine.
func findKeyGroup() string {
	for _, name := range []string{proxyGroup, keyGroup} {
		if _, err := user.LookupGroup(name); err == nil {
			return name
		}
	}
	return ""
}

// keyNames returns the private keys and certificates that Apache's configuration names.
func (m *Machine) keyNames() (names []string) {
	if m.Apache == nil {
		return nil
	}
	for _, x := range parseAllApache(m.Apache) {
		named := x.Name == "sslcertificatekeyfile" || x.Name == "sslcertificatefile"
		if named && len(x.Args) == 1 && filepath.IsAbs(x.Args[0]) && !slices.Contains(names, x.Args[0]) {
			names = append(names, x.Args[0])
		}
	}
	return names
}

// gatherKey determines the access that the proxy needs to read a file. It checks all directories in the path, and in
// that of the file to which a symbolic link leads.
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

// look checks the access to one file or directory.
func (k *KeyFile) look(at, group string) error {
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode()&os.ModeSymlink != 0 || !ok {
		return fmt.Errorf("its path contains the link %s", at)
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
		return fmt.Errorf("%s belongs to the group %s, which has no access either", at, owner)
	}
	return nil
}

// groupName returns the name of a group, or its number if it has no name.
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
