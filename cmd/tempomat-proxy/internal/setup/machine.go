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

// Machine is what setup found, without decisions. Paths are those that the servers use
// themselves; with a Place of another root they have that root in front.
type Machine struct {
	Place   Place
	Systemd bool    // systemd runs here
	Service Service // tempomat-proxy's own unit
	Sockets []host.Listening
	Apache  *Apache // nil: not installed
	Nginx   *Nginx  // nil: not installed
	Config  Config  // tempomat's configuration
	// Keys are the files with private keys that a server's configuration names, and who may
	// read them.
	Keys map[string]KeyFile
	// KeyGroup is the group that gets the keys which only root may read: the proxy's own,
	// or Debian's for that (ssl-cert). Empty: there is neither.
	KeyGroup string
	Journal  *journal // what setup has done here already; nil: nothing
	// JournalFault is why that cannot be read.
	JournalFault error
}

// Place is where setup works. The zero root is the machine itself.
type Place struct {
	Root                  string // before each path; empty: the machine
	HTTP, HTTPS           int    // where the public asks
	InnerHTTP, InnerHTTPS int    // where a server moves to, or to one of the next ports
}

// Standard is the machine itself, with the ports of the web.
func Standard() Place { return Place{HTTP: 80, HTTPS: 443, InnerHTTP: 8080, InnerHTTPS: 8443} }

// Service is the state of a unit of systemd.
type Service struct{ Installed, Enabled, Active bool }

// Position is a line of a file, from 1.
type Position struct {
	Path string
	Line int
}

// Apache is an Apache httpd in Debian's layout.
type Apache struct {
	Dir     string            // /etc/apache2
	Hosts   []Position        // each <VirtualHost> in force, according to Apache
	Files   []host.ConfigFile // each file that Apache reads, in its order
	Modules []string          // that are loaded, such as ssl_module
	Fault   string            // why it could not be asked, or that its configuration is broken
}

// Nginx is an nginx in Debian's layout.
type Nginx struct {
	Dir    string            // /etc/nginx
	Files  []host.ConfigFile // each file that nginx reads, the main one first
	RealIP bool              // it can take the client's address from a header
	Fault  string            // why it could not be asked, or that its configuration is broken
}

// Config is tempomat's configuration file.
type Config struct {
	Exists   bool
	Text     string
	Defaults bool // it changes no default, like the package's file
}

// KeyFile is who may read a private key, or a certificate.
type KeyFile struct {
	// Needs are the files and directories on the way to it that only root may use.
	Needs []Access
	// Groups are groups, in addition to KeyGroup, that some of them belong to.
	Groups []string
	Fault  string // why the proxy cannot be let to it
}

// Access is who may use a file or directory.
type Access struct {
	Path  string
	Group string // its name, or number
	Mode  uint32 // permission bits
	Dir   bool
}

// command is what people run to give that access.
func (a Access) command() string {
	return fmt.Sprintf("chgrp %s %s; chmod %04o %s", a.Group, a.Path, a.Mode, a.Path)
}

// Runner starts and ends programs.
type Runner interface {
	// Run returns what a program printed, on both outputs.
	Run(ctx context.Context, argv ...string) (string, error)
	// Terminate asks a process to end.
	Terminate(pid int) error
}

// Gather looks at a machine. isDefault tells whether a configuration of tempomat
// changes no default.
func Gather(ctx context.Context, place Place, run Runner, isDefault func(file string) bool) Machine {
	m := Machine{Place: place, Sockets: host.Listeners(), Keys: map[string]KeyFile{}}
	m.Systemd = exists(systemdRuns(place))
	if m.Systemd {
		m.Service = service(ctx, run)
	}
	if m.Journal, m.JournalFault = loadJournal(journalFile(place)); errors.Is(m.JournalFault, fs.ErrNotExist) {
		m.JournalFault = nil
	}
	m.Apache, m.Nginx = gatherApache(ctx, place, run), gatherNginx(ctx, place, run)
	m.Config = gatherConfig(place, isDefault)
	m.KeyGroup = findKeyGroup()
	for _, key := range m.keyNames() {
		m.Keys[key] = gatherKey(key, place.Root, m.KeyGroup)
	}
	return m
}

// systemdRuns is there if it does.
func systemdRuns(p Place) string { return p.Root + "/run/systemd/system" }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func service(ctx context.Context, run Runner) Service {
	ask := func(verb string) string {
		text, _ := run.Run(ctx, "systemctl", verb, unitName) // its status is in the word
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

// hostLine is a line of Apache's DUMP_VHOSTS, which ends in (file:line).
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
			return nil // its files were left behind
		}
		a.Fault = lastLines(text, err)
		return a
	}
	hosts := hostLine()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if at := hosts.FindStringSubmatch(line); at != nil {
			n, _ := strconv.Atoi(at[2])                                        // digits, by the pattern
			if host := (Position{at[1], n}); !slices.Contains(a.Hosts, host) { // it is told twice
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

func gatherNginx(ctx context.Context, place Place, run Runner) *Nginx {
	dir := place.Root + "/etc/nginx"
	if !exists(dir + "/nginx.conf") {
		return nil
	}
	n := &Nginx{Dir: dir}
	text, err := run.Run(ctx, "nginx", "-T")
	if err != nil {
		if strings.Contains(err.Error(), "executable file not found") {
			return nil
		}
		n.Fault = lastLines(text, err)
		return n
	}
	build, _ := run.Run(ctx, "nginx", "-V")
	n.RealIP = strings.Contains(build, "--with-http_realip_module")
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(line, ":\n"), "# configuration file ")
		if !ok || !filepath.IsAbs(name) || slices.ContainsFunc(n.Files, func(f host.ConfigFile) bool { return f.Path == name }) {
			continue
		}
		if f, err := readFile(name); err != nil {
			n.Fault = err.Error()
		} else {
			n.Files = append(n.Files, f)
		}
	}
	return n
}

// readFile reads a file of a configuration.
func readFile(name string) (host.ConfigFile, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return host.ConfigFile{}, err
	}
	text, err := os.ReadFile(real)
	return host.ConfigFile{Path: name, Real: real, Text: string(text)}, err
}

// lastLines are the last lines that a program printed: they tell what was wrong.
func lastLines(text string, err error) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-3):]
	return strings.TrimSpace(strings.Join(lines, "; ") + " (" + err.Error() + ")")
}

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

// look notes who may use one file or directory.
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
