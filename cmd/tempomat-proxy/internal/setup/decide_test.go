package setup

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tempomat/proxy/host"
)

const portsConf = "Listen 80\n\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n"

// apacheMachine returns a machine with Debian's Apache and these files. Files that contain a <VirtualHost> are active.
func apacheMachine(modules string, files ...string) Machine {
	m := Machine{Place: Standard(), Systemd: true, Service: Service{Installed: true}, Keys: map[string]KeyFile{}, KeyGroup: proxyGroup}
	a := &Apache{Dir: "/etc/apache2", Modules: strings.Fields(modules)}
	for i := 0; i < len(files); i += 2 {
		f := host.ConfigFile{Path: "/etc/apache2/" + files[i], Real: "/etc/apache2/" + strings.Replace(files[i], "enabled", "available", 1), Text: files[i+1]}
		a.Files = append(a.Files, f)
		for n, line := range strings.Split(f.Text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "<VirtualHost") {
				a.Hosts = append(a.Hosts, Position{f.Path, n + 1})
			}
		}
	}
	m.Apache = a
	return m
}

const (
	certs    = "\tSSLCertificateFile /c/full.pem\n\tSSLCertificateKeyFile /c/key.pem\n"
	secured  = "<IfModule mod_ssl.c>\n<VirtualHost *:443>\n\tServerName a.example\n" + certs + "</VirtualHost>\n</IfModule>\n"
	redirect = "<VirtualHost *:80>\n\tServerName a.example\n\tRedirect permanent / https://a.example/\n</VirtualHost>\n"
)

func readable(m Machine) Machine {
	m.Keys = map[string]KeyFile{"/c/full.pem": {}, "/c/key.pem": {Needs: []Access{{Path: "/c/key.pem", Group: "root", Mode: 0o600}}}}
	return m
}

// besideTLS returns a machine that has a site with TLS. plain is the configuration of the site on port 80.
func besideTLS(plain string) Machine {
	return readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a-le-ssl.conf", secured, "sites-enabled/a.conf", plain))
}

// TestDecide checks the resulting files for each machine.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		m     Machine
		after map[string]string // texts that the files must contain afterwards
		note  string
	}{
		"Debian's Apache": {
			m: apacheMachine("mpm_prefork_module php_module", "ports.conf", portsConf, "sites-enabled/000-default.conf", "<VirtualHost *:80>\n\tDocumentRoot /var/www/html\n</VirtualHost>\n"),
			after: map[string]string{
				"/etc/apache2/ports.conf":                       "Listen 127.0.0.1:8080\n\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n",
				"/etc/apache2/sites-available/000-default.conf": "<VirtualHost *>\n\tDocumentRoot /var/www/html\n</VirtualHost>\n",
				"/etc/tempomat/tempomat.yaml":                   "listen: \":80\"\nbackend: http://127.0.0.1:8080\n",
				"/etc/apache2/conf-available/tempomat.conf":     "RemoteIPInternalProxy 127.0.0.1 ::1\n",
			},
		},
		"two Listen for all": {
			m:     apacheMachine("", "ports.conf", "Listen 0.0.0.0:80\n  Listen [::]:80\n", "sites-enabled/a.conf", "<VirtualHost _default_:80>\n</VirtualHost>"),
			after: map[string]string{"/etc/apache2/ports.conf": "Listen 127.0.0.1:8080\n  # tempomat: Listen [::]:80\n"},
		},
		"Apache with TLS": {
			m: readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a.conf", redirect, "sites-enabled/a-le-ssl.conf", secured)),
			after: map[string]string{
				"/etc/apache2/ports.conf":                    "Listen 80\n\n<IfModule ssl_module>\n\tListen 127.0.0.1:8443 https\n</IfModule>\n",
				"/etc/apache2/sites-available/a-le-ssl.conf": "<IfModule mod_ssl.c>\n<VirtualHost *>\n",
				"/etc/tempomat/tempomat.yaml":                "listen: [{address: \":443\", tls: true}]\ntls:\n  certificates:\n    - {certificate: \"/c/full.pem\", key: \"/c/key.pem\"}\nbackend: https://127.0.0.1:8443\n",
			},
		},
		"certbot's redirect": {
			m:    besideTLS("<VirtualHost *:80>\n\tServerName a.example\nRewriteEngine on\nRewriteCond %{REQUEST_URI} !^/\\.well-known/\nRewriteCond %{SERVER_NAME} =a.example\nRewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]\n</VirtualHost>\n"),
			note: "Port 80 stays with Apache, which redirects its requests to https",
		},
		"pages beside TLS": {
			m:    besideTLS("<VirtualHost *:80>\n\tDocumentRoot /var/www\n</VirtualHost>\n"),
			note: "a.conf:1 serves pages on port 80, although there are TLS sites on port 443. Port 80 stays with Apache",
		},
		"a redirect of some paths": {
			m:    besideTLS("<VirtualHost *:80>\nRewriteEngine on\nRewriteCond %{REQUEST_URI} ^/shop\nRewriteRule ^ https://a.example%{REQUEST_URI}\n</VirtualHost>\n"),
			note: "serves pages on port 80",
		},
		"a redirect that is off": {
			m:    besideTLS("<VirtualHost *:80>\nRewriteRule ^ https://a.example%{REQUEST_URI}\n</VirtualHost>\n"),
			note: "serves pages on port 80",
		},
		"a redirect of one directory": {
			m:    besideTLS("<VirtualHost *:80>\n\t<Location /x>\n\tRedirect / https://a.example/\n\t</Location>\n</VirtualHost>\n"),
			note: "serves pages on port 80",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.m)
			if len(p.Obstacles) > 0 {
				t.Fatalf("%q", p.Obstacles)
			}
			if c.note != "" && !strings.Contains(strings.Join(p.Notes, "\n"), c.note) {
				t.Errorf("no note %q: %q", c.note, p.Notes)
			}
			for path, text := range c.after {
				i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Path == path })
				if i < 0 || !strings.Contains(p.Changes[i].After, text) {
					t.Errorf("%s is not to have\n%s\nof\n%+v", path, text, p.Changes)
				}
			}
		})
	}
}

// TestDecideNot: if setup can't change a machine, the plan says why, and what to do.
func TestDecideNot(t *testing.T) {
	const plain = "<VirtualHost *:80>\n</VirtualHost>\n"
	for name, c := range map[string]struct{ modules, ports, site, obstacle string }{
		"no site on 443":                 {"ssl_module", portsConf, plain, "Listen 443 has no site"},
		"client certificates":            {"ssl_module", portsConf, strings.Replace(secured, "ServerName a.example", "SSLVerifyClient require", 1), "SSLVerifyClient"},
		"no certificate of its own":      {"ssl_module", portsConf, strings.Replace(secured, certs, "", 1), "does not name its certificate"},
		"a chain of its own":             {"ssl_module", portsConf, strings.Replace(secured, certs, certs+"SSLCertificateChainFile /c/chain.pem\n", 1), "does not name its certificate"},
		"an address":                     {"", "Listen 80\n", "<VirtualHost 192.0.2.1:80>\n</VirtualHost>", "<VirtualHost 192.0.2.1:80>"},
		"Listen at an address":           {"", "Listen 192.0.2.1:80\n", plain, "Listen 192.0.2.1:80"},
		"a variable":                     {"", "Listen ${PORT}\n", plain, "Listen ${PORT}"},
		"Listen if something is defined": {"", "<IfDefine X>\nListen 80\n</IfDefine>\n", plain, "Listen inside <ifdefine>"},
		"a macro":                        {"", "Listen 80\n", "Use Site a.example\n", "a macro is used"},
		"mod_remoteip":                   {"remoteip_module", "Listen 80\nRemoteIPHeader X-Real-IP\n", plain, "mod_remoteip is in use"},
		"mod_md":                         {"md_module", "Listen 80\nMDomain a.example\n", plain, "mod_md"},
	} {
		hasObstacle(t, name, readable(apacheMachine(c.modules, "ports.conf", c.ports, "sites-enabled/a.conf", c.site)), c.obstacle)
	}
	hasObstacle(t, "nobody's configuration", Machine{Place: Standard()}, "there is no Apache")
	hasObstacle(t, "a broken one", Machine{Place: Standard(), Apache: &Apache{Fault: "AH00526: Syntax error"}}, "can't be read")
}

func hasObstacle(t *testing.T, name string, m Machine, want string) {
	t.Helper()
	p := Decide(m)
	if !slices.ContainsFunc(p.Obstacles, func(o Obstacle) bool { return strings.Contains(o.What+o.Why, want) && o.Do != "" }) {
		t.Errorf("%s: no obstacle %q: %q", name, want, p.Obstacles)
	}
}

// TestDecideByWhatListens: Apache may use its own ports, and the plan names any other program that uses them.
func TestDecideByWhatListens(t *testing.T) {
	at := func(program string, port uint16) host.Listening {
		return host.Listening{Address: netip.AddrPortFrom(netip.IPv4Unspecified(), port), Program: program}
	}
	for name, c := range map[string]struct {
		sockets []host.Listening
		says    string
	}{
		"Apache":             {[]host.Listening{at("apache2", 80)}, "Listen 127.0.0.1:8080"},
		"it does not run":    {nil, "Listen 127.0.0.1:8080"},
		"another server":     {[]host.Listening{at("apache2", 80), at("nginx", 443)}, "nginx listens on port 443"},
		"nobody may know":    {[]host.Listening{at("", 80)}, "an unknown program"},
		"a tempomat by hand": {[]host.Listening{at("tempomat-proxy", 80)}, "already"},
		"the port is in use": {[]host.Listening{at("apache2", 80), at("java", 8080)}, "Listen 127.0.0.1:8081"},
	} {
		t.Run(name, func(t *testing.T) {
			m := apacheMachine("", "ports.conf", "Listen 80\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>")
			m.Sockets = c.sockets
			p := Decide(m)
			var said strings.Builder
			Show(&said, p)
			if (len(p.Obstacles) == 0) != strings.HasPrefix(c.says, "Listen") || !strings.Contains(said.String(), c.says) {
				t.Errorf("%s", &said)
			}
		})
	}
}

// TestDecideKeys: files that only root may read get the proxy's group. Files of another group keep their group, and
// the proxy joins it.
func TestDecideKeys(t *testing.T) {
	m := readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/s.conf", secured, "sites-enabled/r.conf", redirect))
	m.Keys["/c/full.pem"] = KeyFile{Needs: []Access{{Path: "/c", Group: "root", Mode: 0o700, Dir: true}}, Groups: []string{"mail"}}
	find := func(p Plan, path string) *Change {
		for _, c := range p.Changes {
			if c.Path == path {
				return &c
			}
		}
		t.Fatalf("%s: %+v", path, p)
		return nil
	}
	byHand := m
	byHand.Systemd = false // an administrator must then add the proxy's user to the group
	if p := Decide(byHand); len(p.Obstacles) > 0 || !strings.Contains(strings.Join(p.Notes, "\n"), "usermod -aG mail tempomat") {
		t.Errorf("%+v", p)
	}
	p := Decide(m)
	if a := find(p, "/c/key.pem").Access; a.Mode != 0o640 || a.Group != "tempomat" {
		t.Errorf("%+v", a)
	}
	if a := find(p, "/c").Access; a.Mode != 0o710 || a.Group != "tempomat" {
		t.Errorf("%+v", a)
	}
	const unit = "/etc/systemd/system/tempomat-proxy.service.d/setup.conf"
	if c := find(p, unit); !strings.Contains(c.After, "SupplementaryGroups=mail\n") || !p.Reread {
		t.Errorf("%+v", c)
	}
	m.KeyGroup = keyGroup // tempomat wasn't installed as a package
	if c := find(Decide(m), unit); !strings.Contains(c.After, "SupplementaryGroups=mail ssl-cert\n") {
		t.Errorf("%+v", c)
	}
	m.KeyGroup = ""
	if p := Decide(m); len(p.Obstacles) != 1 || !strings.Contains(p.Obstacles[0].Do, "ssl-cert") {
		t.Errorf("%+v", p.Obstacles)
	}
	m.KeyGroup, m.Keys["/c/key.pem"] = keyGroup, KeyFile{Fault: "no such file"}
	if p := Decide(m); len(p.Obstacles) != 1 || !strings.Contains(p.Obstacles[0].Why, "no such file") {
		t.Errorf("%+v", p.Obstacles)
	}
}

// TestDecideConfig: setup doesn't change existing settings.
func TestDecideConfig(t *testing.T) {
	m := apacheMachine("", "ports.conf", "Listen 80\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>")
	m.Config = Config{Exists: true, Text: "# all defaults\n", Defaults: true}
	p := Decide(m)
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Path == p.Config })
	if i < 0 || p.Changes[i].Before != "# all defaults\n" || p.Changes[i].New || p.Changes[i].Backup == "" {
		t.Errorf("%+v", p.Changes)
	}
	m.Config = Config{Exists: true, Text: "exempt: [{cidr: 192.0.2.1}]\n"}
	if p := Decide(m); len(p.Obstacles) != 1 || !strings.Contains(p.Obstacles[0].Do, "    backend: http://127.0.0.1:8080") {
		t.Errorf("%+v", p.Obstacles)
	}
	m.Service.Installed, m.Config = false, Config{}
	if p := Decide(m); len(p.Obstacles) != 1 || !strings.Contains(p.Obstacles[0].What, "is not installed") {
		t.Errorf("%+v", p.Obstacles)
	}
	m.Journal = new(journal)
	if p := Decide(m); !p.Done || len(p.Changes) > 0 {
		t.Errorf("%+v", p)
	}
}

// FuzzDecide reads any text as a configuration. The result is a plan or an obstacle, and a plan can be
// undone.
func FuzzDecide(f *testing.F) {
	f.Add("Listen 80\n<VirtualHost *:80>\nServerName a\n</VirtualHost>\n")
	f.Add("<IfModule x>\nListen 80 \\\n 443\n<VirtualHost *:443>\nSSLCertificateFile \"/a")
	f.Add("Listen")
	f.Fuzz(func(t *testing.T, apache string) {
		for _, c := range Decide(readable(apacheMachine("ssl_module", "ports.conf", apache))).Changes {
			if len(c.Edits) == 0 {
				continue
			}
			if before, told := takeBack(c.After, c.After, c.Edits); before != c.Before || c.After == c.Before || len(told) > 0 {
				t.Errorf("%q becomes %q, and then %q: %+v", c.Before, c.After, before, told)
			}
		}
	})
}
