package host

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// What is read of a web server's configuration at most.
const (
	mostServerFiles = 512
	mostServerBytes = 1 << 20
	mostDepth       = 32 // of files that include each other
)

// server is what a web server's configuration says of where it listens, how many workers
// it has, and to whom it hands requests.
type server struct {
	listens []listener
	workers int    // that it may have at most; 0: it says none
	by      string // what that number is
	hands   []hand
	php     bool // PHP runs in its own workers
}

// hand is where a server hands requests to.
type hand struct {
	to    string   // as php-fpm's listen has it; empty: to somebody who speaks no FastCGI
	ports []uint16 // only what it is asked at these; none: at any
}

// at tells whether the server listens there.
func (s *server) at(l listener) bool {
	return slices.ContainsFunc(s.listens, func(x listener) bool { return x.meets(l) })
}

// pools are those that it hands requests to of a listener, and whether it hands any to
// somebody else. PHP that runs in its own workers is handed to none.
func (s *server) pools(l listener, all []fpmPool) (pools []fpmPool, others bool) {
	for _, h := range s.hands {
		if len(h.ports) > 0 && l.name == "" && !slices.Contains(h.ports, l.port) {
			continue
		}
		i := slices.IndexFunc(all, func(p fpmPool) bool { return h.to != "" && sameListen(h.to, p.listen) })
		switch {
		case i < 0:
			others = true
		case !slices.ContainsFunc(pools, func(p fpmPool) bool { return p.listen == all[i].listen }):
			pools = append(pools, all[i])
		}
	}
	return pools, others
}

// sameListen tells whether two words of configurations mean one listener.
func sameListen(a, b string) bool {
	x, ok := listenerAt(a)
	y, also := listenerAt(b)
	return ok && also && (x.name != "" && path.Base(x.name) == path.Base(y.name) && sameDir(x.name, y.name) || x.name == "" && y.name == "" && x.meets(y))
}

// sameDir takes /var/run for /run, as it is.
func sameDir(a, b string) bool {
	clean := func(name string) string { return strings.TrimPrefix(path.Dir(name), "/var") }
	return clean(a) == clean(b)
}

// apacheReader reads Apache's files as Apache does: in their order, with what is loaded and
// defined until then.
type apacheReader struct {
	root        fs.FS
	dir         string // ServerRoot
	modules     map[string]bool
	defines     map[string]string
	most, limit int // MaxRequestWorkers, ServerLimit
	threads     int
	files       int
	server      server
}

// readApache reads the configuration of an Apache that was started by this command line.
func readApache(root fs.FS, args []string) *server {
	dir := "/etc/apache2"
	file := "apache2.conf"
	if path.Base(args[0]) == "httpd" {
		dir, file = "/etc/httpd", "conf/httpd.conf"
	}
	r := &apacheReader{root: root, modules: map[string]bool{"core": true, "so_module": true, "http_module": true}, defines: map[string]string{}}
	for i := 1; i < len(args); i++ {
		flag, value := args[i], ""
		if len(flag) > 2 && flag[0] == '-' && strings.Contains("fdD", flag[1:2]) {
			flag, value = flag[:2], flag[2:]
		} else if i+1 < len(args) {
			value = args[i+1]
		}
		switch flag {
		case "-f":
			file = value
		case "-d":
			dir = value
		case "-D":
			r.defines[value] = ""
		}
	}
	r.dir = dir
	if !path.IsAbs(file) {
		file = path.Join(dir, file)
	}
	r.file(file, nil, 0)
	r.count()
	return &r.server
}

// block is a section that is open, such as <IfModule>.
type block struct {
	name  string
	skips bool // what is in it is not in force
	ports []uint16
}

// file reads a file, which stands within those blocks.
func (r *apacheReader) file(name string, within []block, depth int) {
	if r.files++; r.files > mostServerFiles || depth > mostDepth {
		return
	}
	if name = strings.TrimPrefix(path.Clean(name), "/"); !isTrusted(r.root, name) {
		return
	}
	text := ""
	for line := range strings.Lines(readSome(r.root, name, mostServerBytes)) {
		line = strings.TrimRight(line, "\r\n")
		if joined, more := strings.CutSuffix(line, `\`); more {
			text += joined
			continue
		}
		words := apacheWords(text + line)
		if text = ""; len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		for i := range words {
			words[i] = r.expand(words[i])
		}
		within = r.line(words, within, depth)
	}
}

// expand puts in what is defined. The environment of Apache's start is not known.
func (r *apacheReader) expand(word string) string {
	for name, value := range r.defines {
		if strings.Contains(word, "${") {
			word = strings.ReplaceAll(word, "${"+name+"}", value)
		}
	}
	return word
}

// line takes in a line, and returns the blocks that are open after it.
func (r *apacheReader) line(words []string, within []block, depth int) []block {
	name, args := strings.ToLower(words[0]), words[1:]
	if tag, ok := strings.CutPrefix(name, "</"); ok {
		tag = strings.TrimSuffix(tag, ">")
		for i, b := range slices.Backward(within) {
			if b.name == tag {
				return within[:i]
			}
		}
		return within
	}
	skips := slices.ContainsFunc(within, func(b block) bool { return b.skips })
	if tag, ok := strings.CutPrefix(name, "<"); ok {
		b := r.open(strings.TrimSuffix(tag, ">"), args)
		b.skips = b.skips || skips
		return append(slices.Clone(within), b)
	}
	if !skips && len(args) > 0 {
		r.set(name, args, within, depth)
	}
	return within
}

func (r *apacheReader) open(tag string, args []string) block {
	b := block{name: tag}
	if len(args) == 0 {
		return b
	}
	word := strings.TrimSuffix(args[0], ">")
	word, not := strings.CutPrefix(word, "!")
	switch tag {
	case "ifmodule":
		b.skips = r.modules[moduleName(word)] == not
	case "ifdefine":
		_, is := r.defines[word]
		b.skips = is == not
	case "iffile":
		_, err := fs.Stat(r.root, strings.TrimPrefix(r.absolute(word), "/"))
		b.skips = (err == nil) == not
	case "virtualhost":
		for _, at := range args {
			at = strings.TrimSuffix(at, ">")
			port, err := strconv.ParseUint(at[strings.LastIndexByte(at, ':')+1:], 10, 16)
			if err != nil { // at any
				b.ports = nil
				break
			}
			b.ports = append(b.ports, uint16(port))
		}
	}
	return b
}

// moduleName is the identifier of a module that may be named by its source file.
func moduleName(name string) string {
	base, ok := strings.CutSuffix(name, ".c")
	switch {
	case !ok:
		return name
	case slices.Contains([]string{"prefork", "worker", "event"}, base):
		return "mpm_" + base + "_module"
	}
	return strings.TrimPrefix(base, "mod_") + "_module"
}

func (r *apacheReader) absolute(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(r.dir, name)
}

func (r *apacheReader) set(name string, args []string, within []block, depth int) {
	number := func(at *int) {
		if n, err := strconv.Atoi(args[0]); err == nil && n > 0 && n <= mostChildren {
			*at = n
		}
	}
	switch name {
	case "serverroot":
		r.dir = args[0]
	case "define":
		r.defines[args[0]] = strings.Join(args[1:], " ")
	case "undefine":
		delete(r.defines, args[0])
	case "loadmodule":
		r.modules[args[0]] = true
	case "include", "includeoptional":
		r.include(r.absolute(args[0]), within, depth)
	case "listen":
		if l, ok := listenerAt(args[0]); ok {
			r.server.listens = append(r.server.listens, l)
		}
	case "maxrequestworkers", "maxclients":
		number(&r.most)
	case "serverlimit":
		number(&r.limit)
	case "threadsperchild":
		number(&r.threads)
	case "sethandler", "proxypass", "proxypassmatch", "balancermember":
		for _, word := range args {
			r.hand(word, within)
		}
	case "rewriterule":
		if flags := args[len(args)-1]; len(args) > 2 && strings.HasPrefix(flags, "[") && strings.Contains(flags, "P") {
			r.hand(args[1], within)
		}
	}
}

// hand notes to whom a word hands requests: proxy:unix:/run/a.sock|fcgi://localhost,
// fcgi://127.0.0.1:9000/dir, http://127.0.0.1:3000/, balancer://name.
func (r *apacheReader) hand(word string, within []block) {
	word = strings.TrimPrefix(word, "proxy:")
	h := hand{}
	if socket, ok := strings.CutPrefix(word, "unix:"); ok {
		name, scheme, _ := strings.Cut(socket, "|")
		if strings.HasPrefix(scheme, "fcgi:") {
			h.to = name
		}
	} else if rest, ok := strings.CutPrefix(word, "fcgi://"); ok {
		h.to, _, _ = strings.Cut(rest, "/")
	} else if scheme, _, ok := strings.Cut(word, "://"); !ok || scheme == "balancer" {
		return // it hands to nobody, or to members that are told of
	}
	for _, b := range within {
		if b.name == "virtualhost" {
			h.ports = b.ports
		}
	}
	r.server.hands = append(r.server.hands, h)
}

// include reads the files of a pattern, and all of a directory.
func (r *apacheReader) include(pattern string, within []block, depth int) {
	names, _ := fs.Glob(r.root, strings.TrimPrefix(path.Clean(pattern), "/"))
	for _, name := range names {
		info, err := fs.Stat(r.root, name)
		switch {
		case err != nil:
		case info.IsDir():
			if r.files++; r.files < mostServerFiles {
				r.include("/"+name+"/*", within, depth+1)
			}
		default:
			r.file("/"+name, within, depth+1)
		}
	}
}

// count makes the number of workers of what was read, as the MPMs do.
func (r *apacheReader) count() {
	s := &r.server
	s.php = r.modules["php_module"] || r.modules["php7_module"] || r.modules["php5_module"]
	limit, threads := 256, 1
	if r.modules["mpm_worker_module"] || r.modules["mpm_event_module"] {
		limit, threads = 16, cmp.Or(r.threads, 25)
	} else if !r.modules["mpm_prefork_module"] && r.most == 0 {
		return // it is not known which one there is
	}
	most := cmp.Or(r.limit, limit) * threads
	s.workers, s.by = min(cmp.Or(r.most, most), most), "Apache's MaxRequestWorkers"
}

// apacheWords parts a line into words. Quotes hold a word together.
func apacheWords(line string) (words []string) {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		if q := rest[0]; q == '"' || q == '\'' {
			word, after, closed := strings.Cut(rest[1:], rest[:1])
			if words, rest = append(words, word), after; !closed {
				return words
			}
			continue
		}
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		words, rest = append(words, rest[:end]), rest[end:]
	}
	return words
}
