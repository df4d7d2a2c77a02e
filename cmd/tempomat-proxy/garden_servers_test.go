//go:build world

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"tempomat/internal/testkit"
)

// gardener is a server, configured as in Debian, that forwards requests to the next server.
type gardener struct {
	name string
	// start starts the server, and returns its address on the loopback interface.
	start func(t *testing.T, next string) (address string)
	// lacks are the steps that the server can't carry out with any neighbour.
	lacks []string
}

// gardeners are common servers in front of the proxy or behind it.
//
// Their gaps (lacks) also exist without the proxy. nginx before 1.29 treats a 103 as the answer. Varnish 7.1 responds
// with 503 to a 103, to chunk extensions and to trailers. If Varnish rejects a body in chunks, it forwards an empty body
// as complete. lighttpd 1.4.69 writes the trailer of an answer into the headers, with a bare CR, and the proxy therefore
// responds with 502.
var gardeners = []gardener{
	{"nginx", startNginx, []string{"103 first"}},
	{"Apache", startApacheProxy, nil},
	{"HAProxy", startHAProxy, nil},
	{"Varnish", startVarnish, []string{"103 first", "chunks, extended", "an answer in chunks, extended", "a trailer", "a trailer of the answer", "a body that breaks off"}},
	{"lighttpd", startLighttpd, []string{"a trailer of the answer"}},
	{"Node", startNode, nil},
}

// startServer starts a server, and waits until it listens. config and command get the directory to use. config also
// gets the port on which to listen.
func startServer(t *testing.T, config func(dir, port string) string, command func(dir, file string) []string) string {
	t.Helper()
	dir, port := tempDir(t), freePort(t)
	file := filepath.Join(dir, "conf")
	testkit.ReplaceFile(t, file, config(dir, port))
	testkit.Must(t, os.Chmod(dir, 0o755)) // for the user that a server may switch to
	words := command(dir, file)
	testkit.Start(t, nil, words[0], words[1:]...).Listens("127.0.0.1:" + port)
	return "127.0.0.1:" + port
}

func startNginx(t *testing.T, next string) string {
	program := testkit.Program(t, "nginx")
	return startServer(t, func(dir, port string) string {
		user := ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		return fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr; %[2]s
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/1; proxy_temp_path %[1]s/2; fastcgi_temp_path %[1]s/3; uwsgi_temp_path %[1]s/4; scgi_temp_path %[1]s/5;
	upstream next { server %[4]s; keepalive 8; }
	server {
		listen 127.0.0.1:%[3]s;
		location / {
			proxy_pass http://next; proxy_http_version 1.1;
			proxy_set_header Connection ""; proxy_set_header Host $http_host;
		}
	}
}
`, dir, user, port, next)
	}, func(dir, file string) []string { return []string{program, "-e", "stderr", "-p", dir, "-c", file} })
}

func startApacheProxy(t *testing.T, next string) string {
	program := testkit.Program(t, "apache2", "httpd")
	modules := ""
	for _, dir := range []string{"/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules"} {
		if _, err := os.Stat(dir); err == nil {
			modules = dir
		}
	}
	return startServer(t, func(dir, port string) string {
		text := fmt.Sprintf("ServerRoot %[1]s\nServerName localhost\nListen 127.0.0.1:%[2]s\nPidFile %[1]s/pid\nDefaultRuntimeDir %[1]s\nErrorLog %[1]s/error.log\n",
			dir, port)
		for _, m := range []string{"mpm_event", "unixd", "authz_core", "proxy", "proxy_http"} {
			if file := modules + "/mod_" + m + ".so"; isFile(file) { // other modules are built in
				text += "LoadModule " + m + "_module " + file + "\n"
			}
		}
		if os.Getuid() == 0 {
			text += "User www-data\nGroup www-data\n"
		}
		return text + "StartServers 1\nServerLimit 1\nThreadsPerChild 25\nMaxRequestWorkers 25\nMaxKeepAliveRequests 0\n" +
			"AllowEncodedSlashes NoDecode\nProxyPreserveHost On\nProxyPass / http://" + next + "/ nocanon\n"
	}, func(_, file string) []string {
		return []string{"setsid", program, "-f", file, "-DFOREGROUND"} // Apache ends its whole process group
	})
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func startHAProxy(t *testing.T, next string) string { return startHAProxyTo(t, next) }

// startHAProxyH2 starts an HAProxy that uses HTTP/2 to the next server.
func startHAProxyH2(t *testing.T, next string) string { return startHAProxyTo(t, next+" proto h2") }

func startHAProxyTo(t *testing.T, next string) string {
	program := testkit.Program(t, "haproxy")
	return startServer(t, func(_, port string) string {
		return "global\n\tmaxconn 256\ndefaults\n\tmode http\n\ttimeout connect 5s\n\ttimeout client 20s\n\ttimeout server 20s\n" +
			"listen garden\n\tbind 127.0.0.1:" + port + "\n\tserver next " + next + "\n"
	}, func(_, file string) []string { return []string{program, "-db", "-f", file} })
}

func startVarnish(t *testing.T, next string) string {
	program := testkit.Program(t, "varnishd")
	host, port, _ := net.SplitHostPort(next)
	at := ""
	return startServer(t, func(_, own string) string {
		at = "127.0.0.1:" + own
		return fmt.Sprintf("vcl 4.1;\nbackend next { .host = %q; .port = %q; }\nsub vcl_recv { return (pass); }\n", host, port)
	}, func(dir, file string) []string {
		return []string{program, "-F", "-j", "none", "-n", dir, "-a", at, "-f", file, "-T", "none", "-l", "2M", "-s", "malloc,16M",
			"-p", "thread_pools=1", "-p", "thread_pool_min=10"}
	})
}

func startLighttpd(t *testing.T, next string) string {
	program := testkit.Program(t, "lighttpd")
	host, port, _ := net.SplitHostPort(next)
	return startServer(t, func(dir, own string) string {
		return fmt.Sprintf("server.modules = (\"mod_proxy\")\nserver.document-root = %q\nserver.bind = \"127.0.0.1\"\nserver.port = %s\n"+
			"server.upload-dirs = (%q)\nproxy.server = (\"\" => ((\"host\" => %q, \"port\" => %s)))\n", dir, own, dir, host, port)
	}, func(_, file string) []string { return []string{program, "-D", "-f", file} })
}

func startNode(t *testing.T, next string) string {
	program := testkit.Program(t, "node", "nodejs")
	return startServer(t, func(_, own string) string {
		host, port, _ := net.SplitHostPort(next)
		return fmt.Sprintf(nodeProxy, host, port, own)
	}, func(_, file string) []string { return []string{program, file} })
}

// nodeProxy is a program that forwards requests with Node's own HTTP module.
const nodeProxy = `
const http = require('http')
const agent = new http.Agent({ keepAlive: true })
http.createServer((q, r) => {
  const headers = { ...q.headers }
  for (const name of ['connection', 'keep-alive', 'expect']) delete headers[name]
  const p = http.request({ host: '%s', port: %s, agent, method: q.method, path: q.url, headers }, (a) => {
    const back = { ...a.headers }
    for (const name of ['connection', 'keep-alive']) delete back[name]
    r.writeHead(a.statusCode, back)
    a.on('aborted', () => r.destroy())
    a.pipe(r)
  })
  p.on('error', () => { if (!r.headersSent) r.writeHead(502).end() }) // an error after the answer concerns a body that isn't needed
  q.on('aborted', () => p.destroy())
  q.pipe(p)
}).listen(%s, '127.0.0.1')
`

// environmentPage is a page that prints the part of a request that a script finds in its environment.
const environmentPage = `<?php
header('Content-Type: text/plain');
foreach ($_SERVER as $name => $value) if (is_string($value)) echo "$name=$value\n";
`

// writePage writes a file that servers with other users can read.
func writePage(t *testing.T, name, text string) {
	t.Helper()
	testkit.ReplaceFile(t, name, text)
	testkit.Must(t, os.Chmod(name, 0o644))
}

func startLighttpdCGI(t *testing.T) string {
	program := testkit.Program(t, "lighttpd")
	return "http://" + startServer(t, func(dir, own string) string {
		writePage(t, filepath.Join(dir, "env.sh"), "printf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv\n")
		return fmt.Sprintf("server.modules = (\"mod_cgi\")\nserver.document-root = %q\nserver.bind = \"127.0.0.1\"\nserver.port = %s\n"+
			"cgi.assign = (\".sh\" => \"/bin/sh\")\n", dir, own)
	}, func(_, file string) []string { return []string{program, "-D", "-f", file} }) + "/env.sh"
}

func startPHP(t *testing.T) string {
	program, at := testkit.Program(t, "php"), ""
	return "http://" + startServer(t, func(dir, own string) string {
		at = "127.0.0.1:" + own
		writePage(t, filepath.Join(dir, "env.php"), environmentPage)
		return ""
	}, func(dir, _ string) []string { return []string{program, "-S", at, "-t", dir} }) + "/env.php"
}

func startApachePHP(t *testing.T) string {
	a := startApache(t)
	writePage(t, filepath.Join(a.dir, "www", "env.php"), environmentPage)
	return a.url + "/env.php"
}
