package setup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/host"
)

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
	for _, s := range m.Sockets {
		if m.Apache != nil && s.Program == "apache2" {
			m.Apache.Running = true
		}
		if m.Nginx != nil && s.Program == "nginx" {
			m.Nginx.Running = true
		}
	}
	for _, dir := range []string{"/etc/httpd", "/etc/apache2/httpd.conf.d", "/usr/local/nginx/conf"} {
		if m.Apache == nil && m.Nginx == nil && exists(place.Root+dir) {
			m.Foreign = append(m.Foreign, dir)
		}
	}
	m.Pools = gatherPools(place)
	m.Config = gatherConfig(place, isDefault)
	m.KeyGroup, m.Groups = findKeyGroup(), groupsOf(proxyGroup)
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
			n, _ := strconv.Atoi(at[2])                                        // digits, as the pattern says
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

// gatherPools reads the pools of php-fpm, in Debian's layout.
func gatherPools(place Place) (pools []host.Pool) {
	root := os.DirFS(place.Root + "/")
	names, _ := fs.Glob(root, "etc/php/*/fpm/php-fpm.conf") // the pattern is sound
	for _, name := range names {
		pools = append(pools, host.ReadFPM(root, "/"+name)...)
	}
	return pools
}
