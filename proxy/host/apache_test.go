package host

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// tell shows a server's configuration as it was read.
func (s *server) tell() string {
	text := fmt.Sprintf("%d workers", s.workers)
	if s.php {
		text += ", php"
	}
	for _, l := range s.listens {
		text += fmt.Sprintf(", %s%v:%d", l.name, l.addresses, l.port)
	}
	for _, h := range s.hands {
		text += fmt.Sprintf(", hands to %q", h)
	}
	for _, l := range s.proxies {
		text += fmt.Sprintf(", passes on at %s%v:%d", l.name, l.addresses, l.port)
	}
	return text
}

const debianApache = `# comment
DefaultRuntimeDir ${APACHE_RUN_DIR}
IncludeOptional mods-enabled/*.load
IncludeOptional mods-enabled/*.conf
Include ports.conf
<Directory />
	Require all denied
</Directory>
IncludeOptional conf-enabled/*.conf
IncludeOptional sites-enabled/*.conf
`

// TestReadServers reads configurations as Apache and nginx do: where they listen, and where they pass requests.
func TestReadServers(t *testing.T) {
	debian := func(more map[string]string) map[string]string {
		all := map[string]string{
			"etc/apache2/apache2.conf": debianApache,
			"etc/apache2/ports.conf":   "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n<IfModule mod_gnutls.c>\n\tListen 444\n</IfModule>\n",
		}
		for name, text := range more {
			all["etc/apache2/"+name] = text
		}
		return all
	}
	prefork := map[string]string{
		"mods-enabled/mpm_prefork.load": "LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n",
		"mods-enabled/mpm_prefork.conf": "<IfModule mpm_prefork_module>\n\tStartServers 5\n\tMaxRequestWorkers 150\n</IfModule>\n<IfModule mpm_event_module>\n\tMaxRequestWorkers 99\n</IfModule>\n",
		"mods-enabled/php8.2.load":      "# Depends: mpm_prefork\nLoadModule php_module /usr/lib/apache2/modules/libphp8.2.so\n",
	}
	event := map[string]string{
		"mods-enabled/mpm_event.load":  "LoadModule mpm_event_module x.so\n",
		"mods-enabled/proxy_fcgi.load": "LoadModule proxy_fcgi_module x.so\n",
		"conf-enabled/php8.2-fpm.conf": "<IfModule !mod_php8.c>\n<IfModule proxy_fcgi_module>\n<FilesMatch \".+\\.ph(?:ar|p|tml)$\">\n" +
			"\tSetHandler \"proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost\"\n</FilesMatch>\n</IfModule>\n</IfModule>\n",
	}
	alone := func(text string) map[string]string { return map[string]string{"srv/a.conf": text} }
	for name, c := range map[string]struct {
		files map[string]string
		args  string
		want  string
	}{
		"Debian, prefork":           {debian(prefork), "/usr/sbin/apache2 -k start", "150 workers, php, []:80"},
		"Debian, event and php-fpm": {debian(event), "/usr/sbin/apache2 -k start", `400 workers, []:80, hands to "/run/php/php8.2-fpm.sock"`},
		"nothing there":             {map[string]string{}, "/usr/sbin/apache2", "0 workers"},
		"Red Hat":                   {map[string]string{"etc/httpd/conf/httpd.conf": "ServerRoot /etc/httpd\nInclude conf.d/*.conf\n", "etc/httpd/conf.d/a.conf": "MaxRequestWorkers 33\nListen 8080"}, "/usr/sbin/httpd -DFOREGROUND", "33 workers, []:8080"},
		"its file is named":         {alone("LoadModule mpm_prefork_module x\nListen 127.0.0.1:8080"), "apache2 -f /srv/a.conf", "256 workers, [127.0.0.1]:8080"},
		"without a blank":           {alone("LoadModule mpm_prefork_module x\nListen [::1]:8080 https"), "apache2 -f/srv/a.conf", "256 workers, [::1]:8080"},
		"by its directory":          {alone("MaxClients 12"), "apache2 -d /srv -f a.conf", "12 workers"},
		"ServerLimit is less":       {alone("LoadModule mpm_prefork_module x\nServerLimit 20\nMaxRequestWorkers 150"), "apache2 -f /srv/a.conf", "20 workers"},
		"threads":                   {alone("LoadModule mpm_event_module x\nServerLimit 4\nThreadsPerChild 10"), "apache2 -f /srv/a.conf", "40 workers"},
		"fewer than threads":        {alone("LoadModule mpm_worker_module x\nMaxRequestWorkers 50"), "apache2 -f /srv/a.conf", "50 workers"},
		"the last one counts":       {alone("MaxRequestWorkers 50\nMaxRequestWorkers 60"), "apache2 -f /srv/a.conf", "60 workers"},
		"by the source's name":      {alone("LoadModule mpm_prefork_module x\n<IfModule prefork.c>\nMaxRequestWorkers 50\n</IfModule>\n<IfModule !mod_php.c>\nServerLimit 40\n</IfModule>"), "apache2 -f /srv/a.conf", "40 workers"},
		"defined":                   {alone("Define N 7\n<IfDefine BIG>\nDefine N 70\n</IfDefine>\nMaxRequestWorkers ${N}"), "apache2 -D BIG -f /srv/a.conf", "70 workers"},
		"not defined":               {alone("Define N 7\n<IfDefine BIG>\nDefine N 70\n</IfDefine>\n<IfDefine !BIG>\nListen 1\n</IfDefine>\nMaxRequestWorkers ${N}"), "apache2 -f /srv/a.conf", "7 workers, []:1"},
		"joined lines":              {alone("MaxRequest\\\nWorkers 9"), "apache2 -f /srv/a.conf", "9 workers"},
		"no number":                 {alone("MaxRequestWorkers many"), "apache2 -f /srv/a.conf", "0 workers"},
		"a file that is not there":  {alone("<IfFile /srv/b.conf>\nMaxRequestWorkers 9\n</IfFile>\n<IfFile !b.conf>\nMaxRequestWorkers 8\n</IfFile>"), "apache2 -d /srv -f a.conf", "8 workers"},
		"includes itself":           {alone("Include /srv/a.conf\nMaxRequestWorkers 9"), "apache2 -f /srv/a.conf", "9 workers"},
		"a directory":               {map[string]string{"srv/a.conf": "Include /srv/d", "srv/d/x/b.conf": "MaxRequestWorkers 6"}, "apache2 -f /srv/a.conf", "6 workers"},
		"sites": {
			alone("<VirtualHost *:80>\nProxyPass /app fcgi://127.0.0.1:9000/srv\nProxyPass /static !\n</VirtualHost>\n" +
				"<VirtualHost 127.0.0.1:81 [::1]:82>\nProxyPassMatch ^/(.*)$ http://127.0.0.1:3000/$1\n</VirtualHost>\n<VirtualHost _default_>\nRewriteRule ^ unix:/run/b.sock|fcgi://localhost [P,L]\n</VirtualHost>"), "apache2 -f /srv/a.conf",
			`0 workers, hands to "127.0.0.1:9000", hands to "", hands to "/run/b.sock"`,
		},
		"members": {alone("<Proxy balancer://b>\nBalancerMember fcgi://127.0.0.1:9001\n</Proxy>\nProxyPass / balancer://b/"), "apache2 -f /srv/a.conf", `0 workers, hands to "127.0.0.1:9001"`},

		"nginx, Debian": {map[string]string{
			"etc/nginx/nginx.conf":          "user www-data;\nevents {}\nhttp {\n  # fastcgi_pass x;\n  include /etc/nginx/sites-enabled/*;\n}\n",
			"etc/nginx/sites-enabled/a":     "server {\n listen 8080 default_server; listen [::]:8080;\n location ~ \\.php$ { include snippets/php.conf; fastcgi_pass unix:/run/php/php8.2-fpm.sock; }\n}\n",
			"etc/nginx/sites-enabled/b":     "server { location / { proxy_pass http://127.0.0.1:3000; } listen 127.0.0.1:81; }",
			"etc/nginx/snippets/php.conf":   "fastcgi_param A \"; }\";",
			"etc/nginx/sites-available/off": "server { listen 1; }",
		}, "/usr/sbin/nginx -g daemon on;", `0 workers, []:8080, []:8080, [127.0.0.1]:81, hands to "/run/php/php8.2-fpm.sock", passes on at [127.0.0.1]:81`},
		"nginx, upstreams": {map[string]string{"srv/n.conf": "http { server { fastcgi_pass php; } upstream php { server unix:/a.sock; server 127.0.0.1:9000 weight=2; } }"},
			"nginx -c /srv/n.conf", `0 workers, []:80, hands to "/a.sock", hands to "127.0.0.1:9000"`},
		"nginx, unfinished": {map[string]string{"srv/n.conf": "http { server { listen 8080; fastcgi_pass 'a b"}, "nginx -c /srv/n.conf", "0 workers, []:8080"},
		"nginx, odd":        {map[string]string{"srv/n.conf": "; ; server { listen ${x}; listen unix:/run/n.sock; } } server { listen 1; }"}, "nginx -c /srv/n.conf", "0 workers, /run/n.sock[]:0"},
		"nginx, nothing":    {map[string]string{}, "nginx", "0 workers"},
	} {
		t.Run(name, func(t *testing.T) {
			read := readApache
			if strings.HasPrefix(name, "nginx") {
				read = readNginx
			}
			testkit.Same(t, c.want, read(tree(c.files), strings.Fields(c.args)).tell(), "it reads")
		})
	}
}

// TestServersFilesAreOthers checks that a file counts only if all users may read but not write it.
func TestServersFilesAreOthers(t *testing.T) {
	for mode, want := range map[os.FileMode]int{0o644: 9, 0o444: 9, 0o640: 0, 0o666: 0} {
		files := tree(map[string]string{"srv/a.conf": "MaxRequestWorkers 9"})
		files["srv/a.conf"].Mode = mode
		testkit.Same(t, want, readApache(files, []string{"apache2", "-f", "/srv/a.conf"}).workers, "mode %o: workers", mode)
	}
}

// FuzzServers checks that reading ends for any file, and that no file yields an impossible number of
// workers.
func FuzzServers(f *testing.F) {
	f.Add(debianApache)
	f.Add("<IfModule x\n</IfModule>\n<VirtualHost *:1 2>\nProxyPass a fcgi://b\n\\")
	f.Add("http { include *; upstream a { server b; } server { fastcgi_pass ${a}; listen '; } }")
	f.Fuzz(func(t *testing.T, text string) {
		files := tree(map[string]string{"srv/a.conf": text})
		for _, s := range []*server{readApache(files, []string{"apache2", "-d", "/srv", "-f", "a.conf"}), readNginx(files, []string{"nginx", "-c", "/srv/a.conf"})} {
			if s.workers < 0 || s.workers > mostChildren*mostChildren {
				t.Errorf("%d workers", s.workers)
			}
			s.pools(listener{port: 80}, []Pool{{Listen: "9000"}})
		}
	})
}
