package host

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Limits for reading a server's configuration.
const (
	mostServerFiles = 512
	mostServerBytes = 1 << 20
	mostDepth       = 32 // of files that include each other
)

// server is what a web server's configuration says: where it listens, how many workers it has,
// and where it passes requests.
type server struct {
	listens []listener
	workers int    // that it may have at most; 0: it says none
	by      string // what that number is
	hands   []hand
	php     bool // PHP runs in its own workers
}

// hand is where a server hands requests to.
type hand struct {
	to    string   // as in php-fpm's listen; empty: not over FastCGI
	ports []uint16 // only what it is asked at these; none: at any
}

// at reports whether the server listens there.
func (s *server) at(l listener) bool {
	return slices.ContainsFunc(s.listens, func(x listener) bool { return x.meets(l) })
}

// pools are the pools to which it passes a listener's requests; others is whether it passes any
// elsewhere. PHP that runs in its own workers is passed to none.
func (s *server) pools(l listener, all []Pool) (pools []Pool, others bool) {
	for _, h := range s.hands {
		if len(h.ports) > 0 && l.name == "" && !slices.Contains(h.ports, l.port) {
			continue
		}
		i := slices.IndexFunc(all, func(p Pool) bool { return h.to != "" && sameListen(h.to, p.Listen) })
		switch {
		case i < 0:
			others = true
		case !slices.ContainsFunc(pools, func(p Pool) bool { return p.Listen == all[i].Listen }):
			pools = append(pools, all[i])
		}
	}
	return pools, others
}

// sameListen reports whether two words of configurations mean one listener. /var/run is /run.
func sameListen(a, b string) bool {
	x, ok := listenerAt(a)
	y, also := listenerAt(b)
	x.name, y.name = strings.TrimPrefix(x.name, "/var"), strings.TrimPrefix(y.name, "/var")
	return ok && also && x.meets(y)
}

// ConfigFile is a file of a server's configuration.
type ConfigFile struct {
	Path string // as the server names it
	Real string // where it is, symbolic links followed
	Text string
}

// configReader reads the files of a server: only those that belong to root or this user, and that all users may
// read but not write. The text of other files is empty, and of those beyond the limit.
type configReader struct {
	root  fs.FS
	files int // looked for, patterns included
}

// isDone notes that a file or pattern is looked for, and tells whether these are enough.
func (c *configReader) isDone() bool {
	c.files++
	return c.files > mostServerFiles
}

func (c *configReader) read(name string) *ConfigFile {
	f := &ConfigFile{Path: path.Clean(name)}
	if name = strings.TrimPrefix(f.Path, "/"); !c.isDone() && isTrusted(c.root, name) {
		f.Text = readSome(c.root, name, mostServerBytes)
	}
	return f
}

// matching are the files of a pattern, which a directory may be meant from.
func (c *configReader) matching(dir, pattern string) (names []string) {
	found, _ := fs.Glob(c.root, strings.TrimPrefix(absolute(dir, pattern), "/"))
	for _, name := range found {
		names = append(names, "/"+name)
	}
	return names
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// isTrusted reports whether a file is root's, or this user's own.
func isTrusted(root fs.FS, name string) bool {
	info, err := fs.Stat(root, name)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Uid == 0 || int(s.Uid) == os.Getuid() // not ok: no file system of the machine
}

// readSome reads the beginning of a file that all users may read but not write; of another one,
// or none, nothing.
func readSome(root fs.FS, name string, most int64) string {
	info, err := fs.Stat(root, name)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o006 != 0o004 {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()            // it was only read
	b, _ := io.ReadAll(io.LimitReader(f, most)) // what came before an error is its beginning
	return string(b)
}
