package host

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Directive is one line of an Apache configuration, or several that a backslash joins.
type Directive struct {
	File   *ConfigFile
	Line   int    // number of its first line, counted from 1
	Joined bool   // whether backslashes join several lines
	Name   string // name in lower case; a section's name begins with a bracket, such as <virtualhost
	Args   []string
	Within []Section // enclosing sections, outermost first
}

// Raw returns the first line of the directive, unchanged.
func (d Directive) Raw() string { return strings.Split(d.File.Text, "\n")[d.Line-1] }

// Section is a pair of tags such as <IfModule ssl_module>.
type Section struct {
	Name string // name in lower case
	Args []string
	Line int // number of the line in which it begins
}

// ParseApache reads the lines of a file. It doesn't follow Include.
func ParseApache(f *ConfigFile) []Directive {
	var all []Directive
	var within []Section
	text, first := "", 0
	for i, line := range strings.Split(f.Text, "\n") {
		if first == 0 {
			first = i + 1
		}
		line = strings.TrimSuffix(line, "\r")
		if joined, ok := strings.CutSuffix(line, `\`); ok {
			text += joined
			continue
		}
		text += line
		words := apacheWords(text)
		joined := first != i+1
		at := first
		text, first = "", 0
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if tag, ok := strings.CutPrefix(words[0], "</"); ok {
			within = closeSection(within, strings.ToLower(strings.TrimSuffix(tag, ">")))
			continue
		}
		d := Directive{File: f, Line: at, Joined: joined, Name: strings.ToLower(words[0]), Args: words[1:], Within: slices.Clone(within)}
		if tag, ok := strings.CutPrefix(d.Name, "<"); ok {
			d.Name, d.Args = openSection(tag, d.Args)
			within = append(within, Section{strings.TrimPrefix(d.Name, "<"), d.Args, at})
		}
		all = append(all, d)
	}
	return all
}

// openSection returns the name of a section, with its bracket, and its arguments.
func openSection(tag string, args []string) (string, []string) {
	args = slices.Clone(args)
	if n := len(args); n > 0 {
		args[n-1] = strings.TrimSuffix(args[n-1], ">")
		if args[n-1] == "" {
			args = args[:n-1]
		}
	}
	return "<" + strings.TrimSuffix(tag, ">"), args
}

// closeSection removes the innermost section with the given name, and all sections inside it.
func closeSection(within []Section, name string) []Section {
	for i, s := range slices.Backward(within) {
		if s.Name == name {
			return within[:i]
		}
	}
	return within
}

// apacheReader reads files in Apache's order and tracks which modules and variables are defined so far.
type apacheReader struct {
	configReader

	dir         string // ServerRoot
	modules     map[string]bool
	defines     map[string]string
	most, limit int // MaxRequestWorkers, ServerLimit
	threads     int
	server      server
}

// readApache reads the configuration of an Apache server that was started with the arguments args.
func readApache(root fs.FS, args []string) *server {
	dir := "/etc/apache2"
	file := "apache2.conf"
	if path.Base(args[0]) == "httpd" {
		dir, file = "/etc/httpd", "conf/httpd.conf"
	}
	r := &apacheReader{configReader: configReader{root: root}, modules: map[string]bool{"core": true, "so_module": true, "http_module": true}, defines: map[string]string{}}
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
	r.file(absolute(dir, file), 0)
	r.count()
	return &r.server
}

func (r *apacheReader) file(name string, depth int) {
	if depth > mostDepth {
		return
	}
	var skips []bool // for each open section, whether its lines are skipped
	for _, d := range ParseApache(r.read(name)) {
		skips = skips[:len(d.Within)]
		for i := range d.Args {
			d.Args[i] = r.expand(d.Args[i])
		}
		if tag, ok := strings.CutPrefix(d.Name, "<"); ok {
			skips = append(skips, len(d.Args) > 0 && r.skips(tag, d.Args[0]))
		} else if !slices.Contains(skips, true) && len(d.Args) > 0 {
			r.set(d.Name, d.Args, depth)
		}
	}
}

// expand replaces variables that Define has set. It can't replace variables of Apache's environment, because it
// can't see that environment.
func (r *apacheReader) expand(word string) string {
	for name, value := range r.defines {
		if strings.Contains(word, "${") {
			word = strings.ReplaceAll(word, "${"+name+"}", value)
		}
	}
	return word
}

// skips reports whether Apache ignores the lines in a section.
func (r *apacheReader) skips(tag, condition string) bool {
	word, not := strings.CutPrefix(condition, "!")
	switch tag {
	case "ifmodule":
		return r.modules[ModuleName(word)] == not
	case "ifdefine":
		_, is := r.defines[word]
		return is == not
	case "iffile":
		_, err := fs.Stat(r.root, strings.TrimPrefix(absolute(r.dir, word), "/"))
		return (err == nil) == not
	}
	return false
}

// ModuleName returns a module's identifier. The configuration may also name a module by its source
// file.
func ModuleName(name string) string {
	base, ok := strings.CutSuffix(name, ".c")
	switch {
	case !ok:
		return name
	case slices.Contains([]string{"prefork", "worker", "event"}, base):
		return "mpm_" + base + "_module"
	}
	return strings.TrimPrefix(base, "mod_") + "_module"
}

func (r *apacheReader) set(name string, args []string, depth int) {
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
		r.include(args[0], depth)
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
			r.hand(word)
		}
	case "rewriterule":
		if flags := args[len(args)-1]; len(args) > 2 && strings.HasPrefix(flags, "[") && strings.Contains(flags, "P") {
			r.hand(args[1])
		}
	}
}

// hand records the program to which a word in the configuration passes requests. Such words are, for example,
// proxy:unix:/run/a.sock|fcgi://localhost, fcgi://127.0.0.1:9000/dir, http://127.0.0.1:3000/ and
// balancer://name.
func (r *apacheReader) hand(word string) {
	word = strings.TrimPrefix(word, "proxy:")
	to := ""
	if socket, ok := strings.CutPrefix(word, "unix:"); ok {
		if name, scheme, _ := strings.Cut(socket, "|"); strings.HasPrefix(scheme, "fcgi:") {
			to = name
		}
	} else if rest, ok := strings.CutPrefix(word, "fcgi://"); ok {
		to, _, _ = strings.Cut(rest, "/")
	} else if scheme, _, ok := strings.Cut(word, "://"); !ok || scheme == "balancer" {
		return // not a target, or a balancer, whose members are listed elsewhere
	}
	r.server.hands = append(r.server.hands, to)
}

// include reads the files that match a pattern, and all files in a directory.
func (r *apacheReader) include(pattern string, depth int) {
	for _, name := range r.matching(r.dir, pattern) {
		info, err := fs.Stat(r.root, name[1:])
		switch {
		case err != nil:
		case !info.IsDir():
			r.file(name, depth+1)
		case !r.isDone():
			r.include(name+"/*", depth+1)
		}
	}
}

// count computes the number of workers as Apache's MPMs do.
func (r *apacheReader) count() {
	s := &r.server
	s.php = r.modules["php_module"] || r.modules["php7_module"] || r.modules["php5_module"]
	limit, threads := 256, 1
	if r.modules["mpm_worker_module"] || r.modules["mpm_event_module"] {
		limit, threads = 16, cmp.Or(r.threads, 25)
	} else if !r.modules["mpm_prefork_module"] && r.most == 0 {
		return // the MPM is unknown
	}
	most := cmp.Or(r.limit, limit) * threads
	s.workers, s.by = min(cmp.Or(r.most, most), most), "Apache's MaxRequestWorkers"
}

// apacheWords splits a line into words. A quoted text is one word.
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
