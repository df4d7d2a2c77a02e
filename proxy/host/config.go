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
	mostDepth       = 32 // deepest nesting of includes
)

// server is the content of a web server's configuration: where it listens, how many workers it has, and where
// it passes requests.
type server struct {
	listens []listener
	workers int      // largest number of workers; 0: unknown
	by      string   // setting that determines workers
	hands   []string // addresses to which it passes FastCGI requests, in the form of php-fpm's listen
	php     bool     // whether PHP runs in the server's own workers
	// proxies are the addresses at which nginx passes requests on in other ways. For Apache, hands has an empty entry.
	proxies []listener
}

// at reports whether the server listens at an address.
func (s *server) at(l listener) bool {
	return slices.ContainsFunc(s.listens, func(x listener) bool { return x.meets(l) })
}

// pools returns those of the given php-fpm pools that get requests from the server. others reports whether the
// server also passes requests to other programs at address l. nginx may also pass them to tempomat, but at the
// address that clients use.
func (s *server) pools(l listener, all []Pool) (pools []Pool, others bool) {
	others = slices.ContainsFunc(s.proxies, func(x listener) bool { return x.meets(l) })
	for _, to := range s.hands {
		i := slices.IndexFunc(all, func(p Pool) bool { return sameListen(to, p.Listen) })
		switch {
		case i < 0:
			others = true
		case !slices.ContainsFunc(pools, func(p Pool) bool { return p.Listen == all[i].Listen }):
			pools = append(pools, all[i])
		}
	}
	return pools, others
}

// sameListen reports whether two configured addresses are the same. /var/run is the same as /run.
func sameListen(a, b string) bool {
	x, ok := listenerAt(a)
	y, also := listenerAt(b)
	x.name, y.name = strings.TrimPrefix(x.name, "/var"), strings.TrimPrefix(y.name, "/var")
	return ok && also && x.meets(y)
}

// ConfigFile is a file of a server's configuration.
type ConfigFile struct {
	Path string // path that the server uses
	Real string // path with symbolic links resolved
	Text string
}

// configReader reads a server's files if they belong to root or to this user, and if all users may read but
// not write them. Other files, and files beyond the limit, count as empty.
type configReader struct {
	root  fs.FS
	files int // number of files and patterns opened so far
}

// isDone counts a file or pattern, and reports whether the limit is reached.
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

// matching lists the files that match a pattern, which may be relative to a directory.
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

// isTrusted reports whether a file belongs to root or to this user.
func isTrusted(root fs.FS, name string) bool {
	info, err := fs.Stat(root, name)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Uid == 0 || int(s.Uid) == os.Getuid() // the file system of a test has no owners
}

// readSome reads the beginning of a file that all users may read but not write. For any other file it returns
// an empty text.
func readSome(root fs.FS, name string, most int64) string {
	info, err := fs.Stat(root, name)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o006 != 0o004 {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()            // an error doesn't matter after reading
	b, _ := io.ReadAll(io.LimitReader(f, most)) // after an error, the part that was read counts
	return string(b)
}
