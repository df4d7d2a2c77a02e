//go:build world

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	osuser "os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/cmd/tempomat-proxy/internal/setup"
	"tempomat/internal/testkit"
)

// setupMachine is a machine with a web server in the state after its installation, and a systemctl that starts and
// stops the real programs.
type setupMachine struct {
	*machine
	place  setup.Place
	server *process // Apache
	proxy  *process
	runs   []string
	// breaks is the beginning of the command that must fail.
	breaks string
}

func newSetupMachine(t *testing.T, install func(*machine)) *setupMachine {
	testkit.Root(t, "only root may do what setup does")
	m := &setupMachine{machine: newMachine(t, &recipePage{name: t.Name()})}
	port := func(usual string) int {
		n, err := strconv.Atoi(m.ports[usual])
		m.must(err)
		return n
	}
	m.place = setup.Place{Root: m.dir, HTTP: port("80"), HTTPS: port("443"), InnerHTTP: port("8080"), InnerHTTPS: port("8443")}
	for _, dir := range []string{"run/systemd/system", "var/www/html/sub", "etc/systemd/system"} {
		m.must(os.MkdirAll(m.path(dir), 0o755))
	}
	m.write("/var/www/html/index.html", "the first page\n")
	m.write("/var/www/html/sub/index.html", "below\n")
	install(m.machine)
	return m
}

func debianApache(t *testing.T) *setupMachine {
	return newSetupMachine(t, func(m *machine) { m.apache2("mpm_event") })
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
		argv[0] = m.path("/bin/" + argv[0])
	default:
		argv[0] = testkit.Program(m.t, argv[0])
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(testkit.Environment(), m.env()...)
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
			(*slot).Signal(os.Interrupt)
		}
	case "reload-or-restart":
		if *slot != nil {
			return m.Run(m.t.Context(), "apache2ctl", "graceful")
		}
		*slot = m.startUnit(unit)
	case "restart", "stop":
		if *slot != nil {
			(*slot).Kill()
			*slot = nil
		}
		if verb == "restart" {
			*slot = m.startUnit(unit)
		}
	}
	return "", nil
}

// Terminate implements setup.Runner.
func (m *setupMachine) Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

func (m *setupMachine) startUnit(unit string) *process {
	if unit == "apache2" {
		return m.startApache2()
	}
	m.startTempomat()
	return m.tempomat.process
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

func (m *setupMachine) sameState(before map[string]string) {
	m.t.Helper()
	testkit.Same(m.t, before, m.state(), "the machine")
}

// siteVisitor is the visitor's address that a proxy on the loopback interface reports. tempomat-proxy trusts this
// report, but a server that wasn't set up doesn't.
const siteVisitor = "203.0.113.9"

// seen reports whether the server's logs name the visitor.
func (m *setupMachine) seen() bool {
	return strings.Contains(m.logs(), siteVisitor)
}

// siteAnswer is an answer of the site.
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

// TestWorldSetup puts the proxy in front of Debian's Apache as its package installs it, sends requests, and
// undoes everything.
func TestWorldSetup(t *testing.T) {
	t.Parallel()
	m := debianApache(t)
	before := m.state()
	m.systemctl("restart", "apache2")
	m.serves(m.place.HTTP, false)
	if status, said := m.setup(); status != 0 || !strings.Contains(said, "Nothing has been changed yet") {
		t.Fatalf("%d:\n%s", status, said)
	}
	m.sameState(before)
	m.breaks = "systemctl enable" // fails after the server has already moved
	if status, said := m.setup("-write"); status != 1 || !strings.Contains(said, "all changes were undone") {
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
	// Requests through the proxy don't come from this machine, so Require local applies.
	if a, err := m.get(m.place.HTTP, false, "/server-status"); err != nil || a.status == 200 {
		t.Errorf("%+v, %v", a, err)
	}
	if status, said := m.setup("-write"); status != 0 || !strings.Contains(said, "already set up") {
		t.Errorf("once more: %d:\n%s", status, said)
	}
	m.systemctl("stop", "tempomat-proxy") // -undo also works if the proxy isn't running
	if status, said := m.setup("-undo"); status != 0 {
		t.Errorf("%d:\n%s", status, said)
	}
	m.sameState(before)
	m.serves(m.place.HTTP, false)
	if status, said := m.setup("-undo"); status != 0 || !strings.Contains(said, "Nothing to undo") {
		t.Errorf("once more: %d:\n%s", status, said)
	}
}

// TestWorldSetupEdited: sites are edited and added after setup. -undo returns the port to all of them, with and without
// systemd.
func TestWorldSetupEdited(t *testing.T) {
	t.Parallel()
	for _, systemd := range []bool{true, false} {
		t.Run(fmt.Sprint("systemd ", systemd), func(t *testing.T) {
			t.Parallel()
			m := debianApache(t)
			site := func(host, name string) string {
				return fmt.Sprintf("<VirtualHost %s>\n\tServerName %s.example\n\tDocumentRoot %s\n</VirtualHost>\n", host, name, m.path("/var/www/"+name))
			}
			public := fmt.Sprint("*:", m.place.HTTP)
			names := []string{"one", "two", "manual"}
			for _, name := range names {
				m.write("/var/www/"+name+"/index.html", name)
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
				m.proxy = m.startUnit("tempomat-proxy")
			}
			m.answers("one", "two")

			m.write("etc/apache2/sites-available/000-default.conf", "# Edited.\n"+site("*", "one")+"# Here as well.\n"+site("*", "two"))
			m.write("etc/apache2/sites-available/manual.conf", site("*", "manual"))
			m.enable("apache2", "sites", "manual.conf")
			m.must(err(m.Run(t.Context(), "apache2ctl", "graceful")))
			m.answers(names...)
			if status, said := m.setup("-write"); status != 0 || !strings.Contains(said, "already set up") {
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

// secureApache returns a machine that has sites with TLS and certificates like certbot's: links in a directory to files
// in another one, which only root may read. A common .htaccess rule would redirect in circles if Apache didn't see
// TLS.
func secureApache(t *testing.T) *setupMachine {
	m := debianApache(t)
	m.shell("a2enmod -q ssl rewrite")
	m.write("etc/apache2/sites-available/000-default.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tRedirect permanent / https://site.example/\n</VirtualHost>\n", m.place.HTTP))
	m.write("etc/apache2/sites-enabled/plain.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tServerName plain.example\n\tDocumentRoot %s\n</VirtualHost>\n", m.place.HTTP, m.path("/var/www/html")))
	mode := os.FileMode(0o600)
	if _, err := osuser.LookupGroup("ssl-cert"); err != nil {
		mode = 0o644 // setup couldn't give a group access to the files
	}
	authority := testkit.NewAuthority(t)
	for _, name := range []string{"site.example", "other.example"} {
		chain, key := authority.Issue(t, time.Now().Add(24*time.Hour), name)
		m.certbot(name, chain, key, mode)
		live := m.path("/etc/letsencrypt/live/" + name)
		m.write("etc/apache2/sites-available/"+name+"-le-ssl.conf", fmt.Sprintf("<IfModule mod_ssl.c>\n<VirtualHost *:%d>\n"+
			"\tServerName %s\n\tDocumentRoot %s\n\tCustomLog %s/access.log combined\n\tSSLEngine on\n\tSSLCertificateFile %[5]s/fullchain.pem\n\tSSLCertificateKeyFile %[5]s/privkey.pem\n"+
			"\tRewriteEngine on\n\tRewriteCond %%{HTTPS} !=on\n\tRewriteRule ^ https://%%{SERVER_NAME}%%{REQUEST_URI} [R=302,L]\n</VirtualHost>\n</IfModule>\n",
			m.place.HTTPS, name, m.path("/var/www/html"), m.path("/var/log/apache2"), live))
		m.enable("apache2", "sites", name+"-le-ssl.conf")
	}
	if mode == 0o600 {
		m.must(os.Chmod(m.path("etc/letsencrypt/live"), 0o700))
		m.must(os.Chmod(m.path("etc/letsencrypt/archive"), 0o700))
	}
	return m
}

// TestWorldSetupTLS: the proxy terminates TLS, and the sites still see TLS. A site that only redirects stays on its
// port.
func TestWorldSetupTLS(t *testing.T) {
	t.Parallel()
	m := secureApache(t)
	before := m.state()
	m.systemctl("restart", "apache2")
	m.serves(m.place.HTTPS, true)
	if status, said := m.setup("-write"); status != 0 {
		t.Fatalf("%d:\n%s\n%v\n%s", status, said, m.runs, m.server.Stderr)
	}
	if m.proxy == nil {
		t.Fatal("the proxy was not started")
	}
	a, err := m.get(m.place.HTTPS, true, "/")
	if err != nil || a.status != 200 || a.body != "the first page\n" {
		t.Errorf("%+v, %v\n%s", a, err, m.proxy.Stderr)
	}
	testkit.Eventually(t, "the server logs the visitor's address", m.seen) // the server logs a request after answering it
	if a, err := m.get(m.place.HTTPS, true, "/sub"); err != nil || a.status != 301 || a.location != "https://site.example/sub/" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := m.get(m.place.HTTP, false, "/"); err != nil || a.status != 301 || !strings.HasPrefix(a.location, "https://site.example/") {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := m.getFrom("plain.example", m.place.HTTP, "http", "/"); err != nil || a.status != 200 || a.body != "the first page\n" {
		t.Errorf("pages beside TLS: %+v, %v", a, err)
	}
	if status, said := m.setup("-undo"); status != 0 {
		t.Errorf("%d:\n%s", status, said)
	}
	m.sameState(before)
	m.serves(m.place.HTTPS, true)
}
