//go:build world

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tempomat/cmd/tempomat-proxy/internal/setup"
	"tempomat/internal/testkit"
)

// setupMachine is a machine in a directory: Debian's configuration of a web server with
// private ports, and a systemctl that starts and stops the real programs.
type setupMachine struct {
	t      *testing.T
	place  setup.Place
	server *process // apache2 or nginx
	proxy  *process
	env    []string
	runs   []string
	// breaks is a command that fails, as it begins.
	breaks string
}

func newSetupMachine(t *testing.T) *setupMachine {
	testkit.Root(t, "only root may do what setup does")
	ports := testkit.FreePorts(t, 4)
	m := &setupMachine{t: t, place: setup.Place{Root: tempDir(t), HTTP: ports, HTTPS: ports + 1, InnerHTTP: ports + 2, InnerHTTPS: ports + 3}}
	for dir := m.place.Root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // for the user that the server changes to
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"run/systemd/system", "run/server", "log", "www/sub", "etc/systemd/system"} {
		m.must(os.MkdirAll(m.path(dir), 0o755))
	}
	m.write("www/index.html", "the first page\n")
	m.write("www/sub/index.html", "below\n")
	m.env = []string{
		"APACHE_CONFDIR=" + m.path("etc/apache2"), "TEMPOMAT_ADMIN_LISTEN=unix:" + m.path("run/admin.sock"),
		"TEMPOMAT_STATE=off", "TEMPOMAT_BUFFER_DIRECTORY=" + m.place.Root,
	}
	t.Cleanup(m.stop)
	return m
}

func (m *setupMachine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *setupMachine) path(name string) string { return filepath.Join(m.place.Root, name) }

func (m *setupMachine) write(name, text string) {
	m.t.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	m.must(os.WriteFile(m.path(name), []byte(text), 0o644))
}

// debian is what its packages put into /etc.
const debian = "../../testdata/debian/"

// copyFrom copies what Debian's package has installed, with its paths and ports exchanged.
func (m *setupMachine) copyFrom(names ...string) {
	m.t.Helper()
	for _, pattern := range names {
		found, err := filepath.Glob(debian + pattern)
		m.must(err)
		for _, name := range found {
			text, err := os.ReadFile(name)
			m.must(err)
			m.write("etc/"+strings.TrimPrefix(name, debian), strings.NewReplacer("/etc/nginx/", m.path("etc/nginx")+"/", "/var/www/html", m.path("www"), "/var/www/", m.place.Root+"/",
				"/var/log/nginx", m.path("log"), "/run/nginx.pid", m.path("run/server/pid"),
				"Listen 80", fmt.Sprint("Listen ", m.place.HTTP), "Listen 443", fmt.Sprint("Listen ", m.place.HTTPS),
				"*:80>", fmt.Sprintf("*:%d>", m.place.HTTP), "listen 80 ", fmt.Sprintf("listen %d ", m.place.HTTP), "[::]:80 ", fmt.Sprintf("[::]:%d ", m.place.HTTP)).Replace(string(text)))
		}
	}
}

// Run implements setup.Runner.
func (m *setupMachine) Run(_ context.Context, argv ...string) (string, error) {
	line := strings.Join(argv, " ")
	m.runs = append(m.runs, line)
	if m.breaks != "" && strings.HasPrefix(line, m.breaks) {
		m.breaks = ""
		return "", errors.New("injected")
	}
	switch argv[0] {
	case "systemctl":
		verb := slices.IndexFunc(argv[1:], func(a string) bool { return !strings.HasPrefix(a, "-") })
		return m.systemctl(argv[1+verb], argv[len(argv)-1])
	case "tempomat-proxy":
		argv[0] = program(m.t, "tempomat-proxy")
	case "nginx":
		argv = append([]string{testkit.Program(m.t, "nginx"), "-e", "stderr", "-c", m.path("etc/nginx/nginx.conf")}, argv[1:]...)
	default:
		argv[0] = testkit.Program(m.t, argv[0])
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(cleanEnv(), m.env...)
	text, err := c.CombinedOutput()
	return string(text), err
}

func (m *setupMachine) systemctl(verb, unit string) (string, error) {
	slot := &m.server
	if unit == "tempomat-proxy" {
		slot = &m.proxy
	}
	switch verb {
	case "is-enabled":
		return "disabled\n", errors.New("exit status 1")
	case "is-active":
		return "inactive\n", errors.New("exit status 3")
	case "kill":
		if *slot != nil {
			(*slot).signal(os.Interrupt)
		}
	case "reload-or-restart":
		if *slot != nil {
			return m.Run(m.t.Context(), reloadCommand(unit)...)
		}
		return m.start(unit, slot)
	case "restart", "stop":
		if *slot != nil {
			(*slot).kill()
			*slot = nil
		}
		if verb == "restart" {
			return m.start(unit, slot)
		}
	}
	return "", nil
}

// reloadCommand is what the units have systemd run.
func reloadCommand(unit string) []string {
	if unit == "nginx" {
		return []string{"nginx", "-s", "reload"}
	}
	return []string{"apache2ctl", "graceful"}
}

// Terminate implements setup.Runner.
func (m *setupMachine) Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

func (m *setupMachine) start(unit string, slot **process) (string, error) {
	var argv []string
	switch unit {
	case "apache2": // it ends its whole group of processes
		argv = []string{"setsid", "sh", "-c", `. "$APACHE_CONFDIR/envvars"; exec "$0" -d "$APACHE_CONFDIR" -DFOREGROUND`, testkit.Program(m.t, "apache2")}
	case "nginx":
		argv = []string{testkit.Program(m.t, "nginx"), "-e", "stderr", "-c", m.path("etc/nginx/nginx.conf"), "-g", "daemon off;"}
	default:
		argv = []string{program(m.t, "tempomat-proxy"), "-config", m.path("etc/tempomat/tempomat.yaml")}
	}
	*slot = startProcess(m.t, m.env, argv[0], argv[1:]...)
	return "", nil
}

// stop ends what runs.
func (m *setupMachine) stop() {
	for _, p := range []**process{&m.proxy, &m.server} {
		if *p != nil {
			(*p).kill()
			*p = nil
		}
	}
}

func (m *setupMachine) setup(args ...string) (status int, said string) {
	m.t.Helper()
	var out bytes.Buffer
	c := setup.Command{Place: m.place, Run: m, IsDefault: changesNothing, IsRoot: true}
	if err := c.Do(m.t.Context(), slices.Contains(args, "-write"), slices.Contains(args, "-undo"), &out); err != nil {
		fmt.Fprintln(&out, err)
		status = 1
	}
	return status, out.String()
}

// state is every file, link, owner and mode of the machine's configuration.
func (m *setupMachine) state() map[string]string {
	m.t.Helper()
	state := map[string]string{}
	m.must(filepath.WalkDir(m.path("etc"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		state[name] = fmt.Sprint(info.Mode(), owner.Uid, owner.Gid)
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			state[name] += " " + target
			return err
		case info.Mode().IsRegular():
			text, err := os.ReadFile(name)
			state[name] += " " + string(text)
			return err
		}
		return nil
	}))
	return state
}

func (m *setupMachine) sameState(before map[string]string) {
	m.t.Helper()
	after := m.state()
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if before[name] != after[name] {
			m.t.Errorf("%s is not as it was:\n%s\nit was:\n%s", name, after[name], before[name])
		}
	}
}

// siteVisitor is whom a proxy on the loopback forwards for, as tempomat-proxy believes and a
// server that was not set up does not.
const siteVisitor = "203.0.113.9"

// seen tells whether the server's log names the visitor.
func (m *setupMachine) seen() bool {
	text, err := os.ReadFile(m.path("log/access.log"))
	m.must(err)
	return strings.Contains(string(text), siteVisitor)
}

// siteAnswer is what the site says.
type siteAnswer struct {
	status         int
	location, body string
}

func (m *setupMachine) get(port int, secure bool, path string) (a siteAnswer, err error) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return m.getFrom("site.example", port, scheme, path)
}

func (m *setupMachine) getFrom(host string, port int, scheme, path string) (a siteAnswer, err error) {
	req, err := http.NewRequest("GET", scheme+"://"+host+path, nil)
	if err != nil {
		return a, err
	}
	req.Header.Set("X-Forwarded-For", siteVisitor)
	tr := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+strconv.Itoa(port))
		},
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return siteAnswer{res.StatusCode, res.Header.Get("Location"), string(body)}, err
}

// serves waits until the site answers.
func (m *setupMachine) serves(port int, secure bool) {
	m.t.Helper()
	testkit.Eventually(m.t, "the site answers", func() bool {
		a, err := m.get(port, secure, "/")
		return err == nil && a.status == 200
	})
}

// debianApache is the package's configuration, with the modules that it switches on.
func debianApache(t *testing.T) *setupMachine {
	testkit.Program(t, "apache2ctl")
	m := newSetupMachine(t)
	m.copyFrom("apache2/apache2.conf", "apache2/ports.conf", "apache2/magic", "apache2/mods-available/*",
		"apache2/sites-available/000-default.conf", "apache2/conf-available/security.conf", "apache2/conf-available/charset.conf")
	m.write("etc/apache2/envvars", fmt.Sprintf("export APACHE_RUN_USER=www-data APACHE_RUN_GROUP=www-data APACHE_PID_FILE=%[1]s/run/server/pid APACHE_RUN_DIR=%[1]s/run/server APACHE_LOCK_DIR=%[1]s/run/server APACHE_LOG_DIR=%[1]s/log\n", m.place.Root))
	for _, mod := range []string{
		"access_compat.load", "alias.conf", "alias.load", "auth_basic.load", "authn_core.load", "authn_file.load", "authz_core.load", "authz_host.load",
		"authz_user.load", "autoindex.conf", "autoindex.load", "deflate.conf", "deflate.load", "dir.conf", "dir.load", "env.load", "filter.load",
		"mime.conf", "mime.load", "mpm_event.conf", "mpm_event.load", "negotiation.conf", "negotiation.load", "reqtimeout.conf", "reqtimeout.load",
		"setenvif.conf", "setenvif.load", "status.conf", "status.load",
	} {
		m.enable("mods", mod)
	}
	m.enable("conf", "security.conf")
	m.enable("conf", "charset.conf")
	m.enable("sites", "000-default.conf")
	return m
}

func (m *setupMachine) enable(kind, name string) {
	m.t.Helper()
	m.must(os.MkdirAll(m.path("etc/apache2/"+kind+"-enabled"), 0o755))
	m.must(os.Symlink("../"+kind+"-available/"+name, m.path("etc/apache2/"+kind+"-enabled/"+name)))
}

func debianNginx(t *testing.T) *setupMachine {
	testkit.Program(t, "nginx")
	m := newSetupMachine(t)
	m.copyFrom("nginx/nginx.conf", "nginx/mime.types", "nginx/fastcgi*", "nginx/snippets/*", "nginx/sites-available/default")
	for _, dir := range []string{"conf.d", "modules-enabled", "sites-enabled"} {
		m.must(os.MkdirAll(m.path("etc/nginx/"+dir), 0o755))
	}
	m.must(os.Symlink(m.path("etc/nginx/sites-available/default"), m.path("etc/nginx/sites-enabled/default")))
	return m
}

// TestWorldSetup puts the proxy before Debian's Apache and nginx, as their packages leave
// them, asks, and takes it all back.
func TestWorldSetup(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) *setupMachine{"apache2": debianApache, "nginx": debianNginx}
	for unit, install := range servers {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			m := install(t)
			before := m.state()
			m.systemctl("restart", unit)
			m.serves(m.place.HTTP, false)
			if status, said := m.setup(); status != 0 || !strings.Contains(said, "Nothing is changed yet") {
				t.Fatalf("%d:\n%s", status, said)
			}
			m.sameState(before)
			m.breaks = "systemctl enable" // when the server has moved already
			if status, said := m.setup("-write"); status != 1 || !strings.Contains(said, "everything is as it was") {
				t.Errorf("%d:\n%s", status, said)
			}
			m.sameState(before)
			m.serves(m.place.HTTP, false)
			status, said := m.setup("-write")
			if status != 0 {
				t.Fatalf("%d:\n%s\n%v", status, said, m.runs)
			}
			if m.seen() {
				t.Error("the server believes anybody")
			}
			a, err := m.get(m.place.HTTP, false, "/")
			if err != nil || a.body != "the first page\n" {
				t.Errorf("%+v, %v", a, err)
			}
			testkit.Eventually(t, "the server logs the visitor", m.seen)
			// The server redirects to its directory with the visitor's port, not its own.
			if a, err := m.get(m.place.HTTP, false, "/sub"); err != nil || a.status != 301 || a.location != "http://site.example/sub/" {
				t.Errorf("%+v, %v", a, err)
			}
			// Who comes through the proxy is not this machine: Require local holds.
			if a, err := m.get(m.place.HTTP, false, "/server-status"); err != nil || a.status == 200 {
				t.Errorf("%+v, %v", a, err)
			}
			if status, said := m.setup("-write"); status != 0 || !strings.Contains(said, "Already set up") {
				t.Errorf("once more: %d:\n%s", status, said)
			}
			if unit == "nginx" { // -undo also helps where the proxy doesn't run
				m.systemctl("stop", "tempomat-proxy")
			}
			if status, said := m.setup("-undo"); status != 0 {
				t.Errorf("%d:\n%s", status, said)
			}
			m.sameState(before)
			m.serves(m.place.HTTP, false)
			if status, said := m.setup("-undo"); status != 0 || !strings.Contains(said, "Nothing to undo") {
				t.Errorf("once more: %d:\n%s", status, said)
			}
		})
	}
}

// TestWorldSetupEdited: sites are edited and added once setup has been here; -undo gives all of them the
// port back, with and without systemd.
func TestWorldSetupEdited(t *testing.T) {
	t.Parallel()
	for _, systemd := range []bool{true, false} {
		t.Run(fmt.Sprint("systemd ", systemd), func(t *testing.T) {
			t.Parallel()
			m := debianApache(t)
			site := func(host, name string) string {
				return fmt.Sprintf("<VirtualHost %s>\n\tServerName %s.example\n\tDocumentRoot %s\n</VirtualHost>\n", host, name, m.path(name))
			}
			public := fmt.Sprint("*:", m.place.HTTP)
			names := []string{"one", "two", "manual"}
			for _, name := range names {
				m.write(name+"/index.html", name)
			}
			m.write("etc/apache2/sites-available/000-default.conf", site(public, "one")+site(public, "two"))
			m.systemctl("restart", "apache2")
			m.answers("one", "two")
			if !systemd {
				m.must(os.RemoveAll(m.path("run/systemd")))
			}
			status, said := m.setup("-write")
			if status != 0 {
				t.Fatalf("%d:\n%s\n%v", status, said, m.runs)
			}
			if !systemd {
				if strings.Contains(said, "Done") || !strings.Contains(said, "apache2ctl graceful\n    setsid sh -c") {
					t.Errorf("it does not say what to run:\n%s", said)
				}
				m.must(err(m.Run(t.Context(), "apache2ctl", "graceful")))
				testkit.Eventually(t, "Apache has left the port", func() bool {
					_, err := m.get(m.place.HTTP, false, "/")
					return errors.Is(err, syscall.ECONNREFUSED)
				})
				m.must(err(m.start("tempomat-proxy", &m.proxy)))
			}
			m.answers("one", "two")

			m.write("etc/apache2/sites-available/000-default.conf", "# Edited.\n"+site("*", "one")+"# Here as well.\n"+site("*", "two"))
			m.write("etc/apache2/sites-available/manual.conf", site("*", "manual"))
			m.enable("sites", "manual.conf")
			m.must(err(m.Run(t.Context(), "apache2ctl", "graceful")))
			m.answers(names...)
			if status, said := m.setup("-write"); status != 0 || !strings.Contains(said, "Already set up") {
				t.Errorf("%d:\n%s", status, said)
			}

			if status, said = m.setup("-undo"); status != 0 || !strings.Contains(said, "Done") {
				t.Fatalf("%d:\n%s", status, said)
			}
			m.answers(names...)
			if _, err := m.get(m.place.InnerHTTP, false, "/"); err == nil {
				t.Error("the inner port is open still")
			}
			want := map[string]string{"000-default": "# Edited.\n" + site(public, "one") + "# Here as well.\n" + site(public, "two"), "manual": site(public, "manual")}
			for name, text := range want {
				if got, _ := os.ReadFile(m.path("etc/apache2/sites-available/" + name + ".conf")); string(got) != text {
					t.Errorf("%s:\n%s", name, got)
				}
			}
			for name := range m.state() {
				if strings.Contains(name, "before-tempomat") || strings.HasSuffix(name, "setup.json") {
					t.Errorf("%s is left\n%s", name, said)
				}
			}
		})
	}
}

func err(_ string, err error) error { return err }

// answers waits until each of some sites answers with its own page.
func (m *setupMachine) answers(names ...string) {
	m.t.Helper()
	for _, name := range names {
		testkit.Eventually(m.t, name+" answers", func() bool {
			a, err := m.getFrom(name+".example", m.place.HTTP, "http", "/")
			return err == nil && a.body == name
		})
	}
}
