package setup

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tempomat/proxy/host"
)

const portsConf = "Listen 80\n\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n"

// apacheMachine is Debian's Apache with these files; "sites" are in force if they have a
// <VirtualHost.
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

func nginxMachine(files ...string) Machine {
	m := Machine{Place: Standard(), Systemd: true, Service: Service{Installed: true}, Keys: map[string]KeyFile{}, KeyGroup: proxyGroup}
	m.Nginx = &Nginx{Dir: "/etc/nginx", RealIP: true, Files: []host.ConfigFile{{
		Path: "/etc/nginx/nginx.conf", Real: "/etc/nginx/nginx.conf",
		Text: "user www-data;\nevents { }\nhttp {\n\tinclude /etc/nginx/conf.d/*.conf;\n\tinclude sites-enabled/*;\n}\n",
	}}}
	for i := 0; i < len(files); i += 2 {
		m.Nginx.Files = append(m.Nginx.Files, host.ConfigFile{
			Path: "/etc/nginx/sites-enabled/" + files[i], Real: "/etc/nginx/sites-available/" + files[i], Text: files[i+1],
		})
	}
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

// TestDecide: of each machine what its files become, or why nothing is done.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		m        Machine
		after    map[string]string // texts that have to stand in a file afterwards
		obstacle string
		note     string
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
			m: readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a-le-ssl.conf", secured, "sites-enabled/a.conf",
				"<VirtualHost *:80>\n\tServerName a.example\nRewriteEngine on\nRewriteCond %{SERVER_NAME} =a.example\nRewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]\n</VirtualHost>\n")),
			note: "Port 80 stays with Apache, which redirects to https there",
		},
		"pages beside TLS": {
			m: readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a-le-ssl.conf", secured,
				"sites-enabled/a.conf", "<VirtualHost *:80>\n\tDocumentRoot /var/www\n</VirtualHost>\n")),
			note: "a.conf:1 serves pages on port 80, next to TLS sites on 443. Port 80 stays with apache2",
		},
		"a redirect of one directory": {
			m: readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a-le-ssl.conf", secured,
				"sites-enabled/a.conf", "<VirtualHost *:80>\n\t<Location /x>\n\tRedirect / https://a.example/\n\t</Location>\n</VirtualHost>\n")),
			note: "serves pages on port 80",
		},
		"no site on 443": {
			m:        apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>\n"),
			obstacle: "Listen 443 has no site",
		},
		"client certificates": {
			m:        readable(apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/s.conf", strings.Replace(secured, "ServerName a.example", "SSLVerifyClient require", 1))),
			obstacle: "SSLVerifyClient",
		},
		"no certificate of its own": {
			m:        apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/s.conf", strings.Replace(secured, certs, "", 1)),
			obstacle: "does not name its certificate",
		},
		"a chain of its own": {
			m:        apacheMachine("ssl_module", "ports.conf", portsConf, "sites-enabled/s.conf", strings.Replace(secured, certs, certs+"SSLCertificateChainFile /c/chain.pem\n", 1)),
			obstacle: "does not name its certificate",
		},
		"an address": {
			m:        apacheMachine("", "ports.conf", "Listen 80\n", "sites-enabled/a.conf", "<VirtualHost 192.0.2.1:80>\n</VirtualHost>"),
			obstacle: "<VirtualHost 192.0.2.1:80>",
		},
		"Listen at an address": {
			m:        apacheMachine("", "ports.conf", "Listen 192.0.2.1:80\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>"),
			obstacle: "Listen 192.0.2.1:80",
		},
		"a variable": {
			m:        apacheMachine("", "ports.conf", "Listen ${PORT}\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>"),
			obstacle: "Listen ${PORT}",
		},
		"Listen if something is defined": {
			m:        apacheMachine("", "ports.conf", "<IfDefine X>\nListen 80\n</IfDefine>\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>"),
			obstacle: "Listen within <ifdefine>",
		},
		"a macro": {
			m:        apacheMachine("", "ports.conf", "Listen 80\n", "sites-enabled/a.conf", "Use Site a.example\n"),
			obstacle: "a macro is used",
		},
		"mod_remoteip": {
			m:        apacheMachine("remoteip_module", "ports.conf", "Listen 80\nRemoteIPHeader X-Real-IP\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>"),
			obstacle: "mod_remoteip is in use",
		},
		"mod_md": {
			m:        apacheMachine("md_module", "ports.conf", "Listen 80\nMDomain a.example\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>"),
			obstacle: "mod_md",
		},
		"nobody's configuration": {m: Machine{Place: Standard()}, obstacle: "neither Apache nor nginx"},
		"a broken one":           {m: Machine{Place: Standard(), Apache: &Apache{Fault: "AH00526: Syntax error"}}, obstacle: "cannot be read"},
		"Debian's nginx": {
			m: nginxMachine("default", "server {\n\tlisten 80 default_server;\n\tlisten [::]:80 default_server;\n\tserver_name _;\n}\n"),
			after: map[string]string{
				"/etc/nginx/sites-available/default": "server {\n\tlisten 127.0.0.1:8080 default_server; port_in_redirect off;\n\t# tempomat: listen [::]:80 default_server;\n\tserver_name _;\n}\n",
				"/etc/nginx/conf.d/tempomat.conf":    "real_ip_recursive on;\n",
				"/etc/tempomat/tempomat.yaml":        "listen: \":80\"\nbackend: http://127.0.0.1:8080\n",
			},
		},
		"a server without listen": {
			m:     nginxMachine("blog", "server { # the blog\n  root /x;\n}\n"),
			after: map[string]string{"/etc/nginx/sites-available/blog": "server { # the blog\n\tlisten 127.0.0.1:8080; port_in_redirect off;\n  root /x;\n}\n"},
		},
		"nginx with TLS": {
			m: readable(nginxMachine("a", "server {\n    listen 443 ssl http2; # managed by Certbot\n    ssl_certificate /c/full.pem;\n    ssl_certificate_key /c/key.pem;\n}\n"+
				"server {\n    if ($host = a.example) {\n        return 301 https://$host$request_uri;\n    }\n    listen 80;\n    return 404;\n}\n")),
			after: map[string]string{
				"/etc/nginx/sites-available/a": "server {\n    listen 127.0.0.1:8443 ssl; port_in_redirect off;\n    ssl_certificate /c/full.pem;",
				"/etc/tempomat/tempomat.yaml":  "backend: https://127.0.0.1:8443\n",
			},
		},
		"nginx, both ports in a server": {
			m:    readable(nginxMachine("a", "server {\n listen 80;\n listen 443 ssl;\n ssl_certificate /c/full.pem;\n ssl_certificate_key /c/key.pem;\n}\n")),
			note: "serves pages on port 80",
		},
		"nginx, pages beside TLS": {
			m:    readable(nginxMachine("a", "server {\n listen 443 ssl;\n ssl_certificate /c/full.pem;\n ssl_certificate_key /c/key.pem;\n}\nserver {\n listen 80;\n location / { root /x; }\n}\n")),
			note: "serves pages on port 80",
		},
		"realip":                    {m: nginxMachine("a", "set_real_ip_from 10.0.0.0/8;\nserver {\n listen 80;\n}\n"), obstacle: "set_real_ip_from is in use"},
		"listen with an option":     {m: nginxMachine("a", "server {\n listen 80 proxy_protocol;\n}\n"), obstacle: "listen 80 proxy_protocol"},
		"listen at an address":      {m: nginxMachine("a", "server {\n listen 192.0.2.1:80;\n}\n"), obstacle: "listen 192.0.2.1:80"},
		"a line for all":            {m: nginxMachine("a", "server { listen 80; root /x; }\n"), obstacle: "shares its line"},
		"a program within":          {m: nginxMachine("a", "server {\n listen 80;\n content_by_lua_block { x() }\n}\n"), obstacle: "holds a program"},
		"braces":                    {m: nginxMachine("a", "server {\n listen 80;\n"), obstacle: "do not match"},
		"an nginx without a module": {m: Machine{Place: Standard(), Nginx: &Nginx{}}, obstacle: "realip"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.m)
			if c.obstacle != "" {
				if !slices.ContainsFunc(p.Obstacles, func(o Obstacle) bool { return strings.Contains(o.What+o.Why, c.obstacle) && o.Do != "" }) {
					t.Errorf("no obstacle %q: %q", c.obstacle, p.Obstacles)
				}
				if len(p.Obstacles) == 0 {
					t.Error("something would be changed")
				}
				return
			}
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

// TestDecideByWhatListens: the ports tell which server is meant, and who is in the way.
func TestDecideByWhatListens(t *testing.T) {
	at := func(program string, port uint16) host.Listening {
		return host.Listening{Address: netip.AddrPortFrom(netip.IPv4Unspecified(), port), Program: program}
	}
	for name, c := range map[string]struct {
		sockets []host.Listening
		server  string
		says    string
	}{
		"Apache":             {[]host.Listening{at("apache2", 80)}, "apache2", ""},
		"nginx":              {[]host.Listening{at("nginx", 80), at("apache2", 8081)}, "nginx", ""},
		"both":               {[]host.Listening{at("apache2", 80), at("nginx", 443)}, "", "both Apache and nginx"},
		"neither":            {nil, "", "neither of them runs"},
		"somebody else":      {[]host.Listening{at("haproxy", 443), at("apache2", 80)}, "", "haproxy listens on port 443"},
		"nobody may know":    {[]host.Listening{at("", 80)}, "", "an unknown program"},
		"a tempomat by hand": {[]host.Listening{at("tempomat-proxy", 80)}, "", "already"},
		"the port is in use": {[]host.Listening{at("apache2", 80), at("java", 8080)}, "apache2", "Listen 127.0.0.1:8081"},
	} {
		t.Run(name, func(t *testing.T) {
			m := apacheMachine("", "ports.conf", "Listen 80\n", "sites-enabled/a.conf", "<VirtualHost *:80>\n</VirtualHost>")
			m.Nginx = nginxMachine("a", "server {\n listen 80;\n}\n").Nginx
			m.Sockets = c.sockets
			p := Decide(m)
			var said strings.Builder
			Show(&said, p)
			if p.Server != c.server || !strings.Contains(said.String(), c.says) {
				t.Errorf("%q:\n%s", p.Server, &said)
			}
		})
	}
}

// TestDecideKeys: what only root may read becomes the group's; what is another group's
// stays so, and the proxy joins that.
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
	byHand.Systemd = false // a person has to put the proxy's user into the group then
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
	m.KeyGroup = keyGroup // no package
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

// TestDecideConfig: settings that somebody made are not touched.
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

// FuzzDecide reads anything as a configuration: there is a plan or an obstacle, and a plan
// can be taken back, also where the files end in other lines since.
func FuzzDecide(f *testing.F) {
	f.Add("Listen 80\n<VirtualHost *:80>\nServerName a\n</VirtualHost>\n", "server {\n listen 80;\n listen [::]:80;\n}\n")
	f.Add("<IfModule x>\nListen 80 \\\n 443\n<VirtualHost *:443>\nSSLCertificateFile \"/a", "server { listen 80; location / { return 301 https://$host; } }")
	f.Add("Listen", "port_in_redirect;server{\nlisten 80;\nport_in_redirect;\n}")
	f.Fuzz(func(t *testing.T, apache, nginx string) {
		for _, m := range []Machine{readable(apacheMachine("ssl_module", "ports.conf", apache)), readable(nginxMachine("a", nginx))} {
			p := Decide(m)
			if len(p.Obstacles) > 0 {
				continue
			}
			for _, c := range p.Changes {
				if len(c.Edits) == 0 {
					continue
				}
				if text, err := applyEdits(c.Before, c.Edits); err != nil || text != c.After || c.After == c.Before {
					t.Errorf("%q becomes %q, not %q: %v", c.Before, text, c.After, err)
				}
			}
		}
	})
}
