package host

import (
	"io/fs"
	"path"
	"strings"
)

// nginxReader reads from nginx's files where nginx listens and where it passes requests. The number of nginx's
// own workers doesn't matter, because no request waits for one.
type nginxReader struct {
	configReader

	dir       string     // directory for relative names
	depth     int        // current nesting of includes
	within    [][]string // enclosing blocks: for each, the words before its brace
	upstreams map[string][]string
	server    server
	first     int  // the first of server.listens that belongs to the current server block
	passes    bool // whether that block passes requests on, but not by FastCGI
}

// readNginx reads the configuration of an nginx that was started with args. It skips what it doesn't
// understand.
func readNginx(root fs.FS, args []string) *server {
	file := "/etc/nginx/nginx.conf"
	for i, word := range args {
		if word == "-c" && i+1 < len(args) {
			file = args[i+1]
		}
	}
	r := &nginxReader{configReader: configReader{root: root}, dir: path.Dir(file), upstreams: map[string][]string{}}
	r.file(file)
	if len(r.server.listens) == 0 && len(r.server.hands)+len(r.server.proxies) > 0 {
		r.server.listens = []listener{{port: 80}} // nginx's default
	}
	for i, name := range r.server.hands { // an upstream may be defined after its use
		if to := r.upstreams[name]; len(to) > 0 {
			r.server.hands[i] = to[0]
			r.server.hands = append(r.server.hands, to[1:]...)
		}
	}
	return &r.server
}

// file reads a file to its end, or to a block that contains a program (Lua).
func (r *nginxReader) file(name string) {
	if r.depth++; r.depth > mostDepth {
		return
	}
	outer := len(r.within)
	defer func() { r.depth, r.within = r.depth-1, r.within[:outer] }()
	t := nginxTokens{text: r.read(name).Text}
	var words []string
	for {
		word, kind := t.next()
		switch {
		case kind == endOfFile, kind == closing && len(r.within) == outer:
			return
		case kind == closing:
			if r.within[len(r.within)-1][0] == "server" {
				r.endServer()
			}
			r.within = r.within[:len(r.within)-1]
		case kind == aWord:
			words = append(words, word)
			continue
		case kind == opening && len(words) > 0 && strings.HasSuffix(words[0], "_by_lua_block"):
			return
		case kind == opening:
			if len(words) > 0 && words[0] == "server" {
				r.first, r.passes = len(r.server.listens), false
			}
			r.within = append(r.within, append(words, "")) // a block without a name has an empty one
		case len(words) > 1:
			r.statement(words[0], words[1])
		}
		words = nil
	}
}

// statement handles one statement, given its name and first argument.
func (r *nginxReader) statement(name, value string) {
	block := []string{"", ""}
	if n := len(r.within); n > 0 {
		block = r.within[n-1]
	}
	place := strings.TrimPrefix(value, "unix:")
	switch {
	case name == "include":
		for _, file := range r.matching(r.dir, value) {
			r.file(file)
		}
	case name == "listen" && block[0] == "server":
		l, ok := listenerAt(place)
		if !ok { // an address without a port
			l, ok = listenerAt(value + ":80")
		}
		if ok {
			r.server.listens = append(r.server.listens, l)
		}
	case name == "server" && block[0] == "upstream" && len(r.upstreams[block[1]]) < mostPools:
		r.upstreams[block[1]] = append(r.upstreams[block[1]], place)
	case name == "fastcgi_pass":
		r.server.hands = append(r.server.hands, place)
	case strings.HasSuffix(name, "_pass") && name != "auth_basic_pass":
		r.passes = true
	}
}

// endServer ends a server block.
func (r *nginxReader) endServer() {
	at := r.server.listens[r.first:]
	if len(at) == 0 {
		at = []listener{{port: 80}} // nginx's default
	}
	if r.passes {
		r.server.proxies = append(r.server.proxies, at...)
	}
}

type tokenKind int

const (
	aWord tokenKind = iota
	opening
	closing
	semicolon
	endOfFile
)

// nginxTokens splits a file into words, braces and semicolons.
type nginxTokens struct {
	text string
	pos  int
}

func (t *nginxTokens) next() (word string, kind tokenKind) {
	text := t.text
	for t.pos < len(text) {
		switch c := text[t.pos]; c {
		case ' ', '\t', '\r', '\n':
			t.pos++
		case '#':
			end := strings.IndexByte(text[t.pos:], '\n')
			if end < 0 {
				end = len(text) - t.pos
			}
			t.pos += end
		case '{', '}', ';':
			t.pos++
			return "", map[byte]tokenKind{'{': opening, '}': closing, ';': semicolon}[c]
		default:
			return t.word(), aWord
		}
	}
	return "", endOfFile
}

// word reads one word, which may be quoted. A brace after a dollar is part of the word, as in ${name}.
func (t *nginxTokens) word() string {
	text, start := t.text, t.pos
	if q := text[start]; q == '"' || q == '\'' {
		for t.pos++; t.pos < len(text) && text[t.pos] != q; t.pos++ {
			if text[t.pos] == '\\' {
				t.pos++
			}
		}
		t.pos = min(t.pos+1, len(text))
		return strings.Trim(text[start:t.pos], string(q))
	}
	variable := false
	for t.pos < len(text) {
		c := text[t.pos]
		if c == '\\' {
			t.pos = min(t.pos+2, len(text))
			continue
		}
		if c == '{' && t.pos > start && text[t.pos-1] == '$' {
			variable = true
		} else if c == '}' && variable {
			variable = false
		} else if strings.IndexByte(" \t\r\n;{}", c) >= 0 {
			break
		}
		t.pos++
	}
	return text[start:t.pos]
}
