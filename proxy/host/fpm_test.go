package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"tempomat/internal/testkit"
)

// tree makes a file system of world-readable files with these texts.
func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if pid, ok := strings.CutSuffix(strings.TrimPrefix(name, "proc/"), "/cmdline"); ok && pid != "self" {
			program, _, _ := strings.Cut(text, ":")
			m["proc/"+pid+"/stat"] = &fstest.MapFile{Data: []byte(pid + " (" + program + ") S 0" + strings.Repeat(" 0", 30)), Mode: 0o444}
		}
	}
	return m
}

const (
	debianMaster = "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)                      \x00"
	debianGlobal = "; a comment\n[global]\npid = /run/php/php8.2-fpm.pid\nerror_log = /var/log/php8.2-fpm.log\n;process.max = 1\n" +
		"include=/etc/php/8.2/fpm/pool.d/*.conf\n"
	debianPool = "; Start a new pool named 'www'.\n[www]\nuser = www-data\nlisten = /run/php/php8.2-fpm.sock\npm = dynamic\n" +
		";pm.max_children = 50\npm.max_children = 5\npm.start_servers = 2\n"
)

// show lists pools as text.
func show(root fstest.MapFS) string {
	text := []string{}
	for _, p := range findFPM(root, processes(root)) {
		text = append(text, fmt.Sprintf("{%s %d %s}", p.Name, p.Children, p.Listen))
	}
	return fmt.Sprint(text)
}

func TestFindFPM(t *testing.T) {
	debian := map[string]string{
		"proc/1/cmdline": "/sbin/init\x00", "proc/77/cmdline": debianMaster, "proc/78/cmdline": "php-fpm: pool www\x00",
		"proc/self/cmdline": debianMaster, "proc/cpuinfo": "",
		"etc/php/8.2/fpm/php-fpm.conf": debianGlobal, "etc/php/8.2/fpm/pool.d/www.conf": debianPool,
	}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(debian)
		maps.Copy(all, more)
		return all
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nobody":                  {map[string]string{}, "[]"},
		"not php":                 {map[string]string{"proc/1/cmdline": "/sbin/init\x00", "proc/2/cmdline": ""}, "[]"},
		"Debian":                  {debian, "[{www 5 /run/php/php8.2-fpm.sock}]"},
		"two masters of one file": {with(map[string]string{"proc/79/cmdline": debianMaster}), "[{www 5 /run/php/php8.2-fpm.sock}]"},
		"two pools": {
			with(map[string]string{"etc/php/8.2/fpm/pool.d/b.conf": "[b]\nlisten=127.0.0.1:9001\npm.max_children = \"20\" ; many\n"}),
			"[{b 20 127.0.0.1:9001} {www 5 /run/php/php8.2-fpm.sock}]",
		},
		"two versions": {
			with(map[string]string{
				"proc/99/cmdline":      "php-fpm: master process (/etc/php/7.4/fpm.conf)\x00",
				"etc/php/7.4/fpm.conf": "[old]\nlisten = /run/$pool.sock\npm.max_children=3\n",
			}),
			"[{www 5 /run/php/php8.2-fpm.sock} {old 3 /run/old.sock}]",
		},
		// The official Docker image: paths are relative to PHP's prefix, and the pool is described in
		// two files.
		"container": {map[string]string{
			"proc/1/cmdline":                         "php-fpm: master process (/usr/local/etc/php-fpm.conf)\x00",
			"usr/local/etc/php-fpm.conf":             "[global]\n;include=etc/none.d/*.conf\ninclude=etc/php-fpm.d/*.conf\n",
			"usr/local/etc/php-fpm.d/docker.conf":    "[global]\nerror_log = /proc/self/fd/2\n[www]\naccess.log = /proc/self/fd/2\n",
			"usr/local/etc/php-fpm.d/www.conf":       "[www]\nlisten = 127.0.0.1:9000\npm.max_children = 5\n",
			"usr/local/etc/php-fpm.d/zz-docker.conf": "[global]\ndaemonize = no\n[www]\nlisten = 9000\n",
		}, "[{www 5 9000}]"},
		"limited in all":   {with(map[string]string{"etc/php/8.2/fpm/php-fpm.conf": debianGlobal + "process.max = 4\n"}), "[{www 4 /run/php/php8.2-fpm.sock}]"},
		"no such file":     {map[string]string{"proc/77/cmdline": debianMaster}, "[]"},
		"a relative file":  {with(map[string]string{"proc/77/cmdline": "php-fpm: master process (etc/php/8.2/fpm/php-fpm.conf)"}), "[]"},
		"outside":          {with(map[string]string{"proc/77/cmdline": "php-fpm: master process (/../../etc/php/8.2/fpm/php-fpm.conf)"}), "[{www 5 /run/php/php8.2-fpm.sock}]"},
		"no title's end":   {with(map[string]string{"proc/77/cmdline": "php-fpm: master process ("}), "[]"},
		"includes itself":  {with(map[string]string{"etc/php/8.2/fpm/pool.d/z.conf": "include=/etc/php/8.2/fpm/pool.d/*.conf\n"}), "[{www 5 /run/php/php8.2-fpm.sock}]"},
		"not a number":     {with(map[string]string{"etc/php/8.2/fpm/pool.d/www.conf": "[www]\npm.max_children = many\n"}), "[]"},
		"not a number > 0": {with(map[string]string{"etc/php/8.2/fpm/pool.d/www.conf": "[www]\npm.max_children = -3\n"}), "[]"},
		"no sane number":   {with(map[string]string{"etc/php/8.2/fpm/pool.d/www.conf": "[www]\npm.max_children = 9999999\n"}), "[]"},
		"no pattern":       {with(map[string]string{"etc/php/8.2/fpm/php-fpm.conf": "include=[\n[www]\npm.max_children = 2"}), "[{www 2 }]"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Same(t, c.want, show(tree(c.files)), "it reads")
		})
	}
}

// TestFPMOwner checks that another user's file doesn't count, because any process may give itself the title of
// a php-fpm master.
func TestFPMOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"proc/7/cmdline": "php-fpm: master process (/f.conf)", "proc/7/stat": "7 (php-fpm8.2) S 1" + strings.Repeat(" 0", 30), "f.conf": debianPool} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if got := findFPM(os.DirFS(dir), processes(os.DirFS(dir))); len(got) != 1 {
		t.Errorf("root's file: %v", got)
	}
	testkit.Must(t, os.Chown(filepath.Join(dir, "f.conf"), 65534, 65534))
	if got := findFPM(os.DirFS(dir), processes(os.DirFS(dir))); len(got) != 0 {
		t.Errorf("another user's file: %v", got)
	}
}

func TestFPMBounds(t *testing.T) {
	files := map[string]string{"etc/a.conf": strings.Repeat("include=/etc/a.conf\n", 1000)}
	for i := range 3 * mostMasters {
		name := fmt.Sprintf("etc/m%d.conf", i)
		var text strings.Builder
		for j := range 2 * mostPools {
			fmt.Fprintf(&text, "[p%d]\npm.max_children = %d\n", j, mostChildren)
		}
		files[name] = text.String() + "include=/etc/a.conf\n"
		files[fmt.Sprintf("proc/%d/cmdline", i+1)] = "php-fpm: master process (/" + name + ")"
	}
	testkit.Same(t, mostPools, len(findFPM(tree(files), processes(tree(files)))), "pools")
}

func TestTogether(t *testing.T) {
	pools := []Pool{{Name: "www", Children: 5}, {Name: "b", Children: 20}}
	if n, by := together(pools); n != 25 || by != `php-fpm's pm.max_children of pool "www", "b"` {
		t.Errorf("%d by %s", n, by)
	}
}

// FuzzFPM checks that no file, however broken, gives an impossible pool.
func FuzzFPM(f *testing.F) {
	f.Add(debianGlobal, debianPool)
	f.Add("include=etc/*\n[global]\nprocess.max=3", "[a]\npm.max_children='7';\n[b\ninclude=**\nlisten=[::]:1")
	f.Fuzz(func(t *testing.T, global, pool string) {
		for _, p := range readFPM(tree(map[string]string{
			"etc/php/8.2/fpm/php-fpm.conf": global, "etc/php/8.2/fpm/pool.d/www.conf": pool,
		}), "/etc/php/8.2/fpm/php-fpm.conf") {
			if p.Children < 1 || p.Children > mostChildren {
				t.Errorf("%v", p)
			}
			if d, ok := listenerAt(p.Listen); ok && d.name == "" && d.port == 0 {
				t.Errorf("%q is a listener", p.Listen)
			}
		}
	})
}
