package host

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// readNginx reads the configuration of an nginx that was started by this command line, of
// which only where it listens and whom it hands requests to matters: it needs no worker to
// wait.
func readNginx(root fs.FS, args []string) *server {
	file := "/etc/nginx/nginx.conf"
	for i, word := range args {
		if word == "-c" && i+1 < len(args) {
			file = args[i+1]
		}
	}
	r := &nginxReader{root: root, dir: path.Dir(file), upstreams: map[string][]string{}}
	r.file(file, 0)
	for i := range r.server.hands { // those of upstreams, which may stand behind
		h := &r.server.hands[i]
		if to, ok := r.upstreams[h.to]; ok && len(to) > 0 {
			h.to = to[0]
			for _, more := range to[1:] {
				r.server.hands = append(r.server.hands, hand{to: more, ports: h.ports})
			}
		}
	}
	return &r.server
}

// nginxReader reads nginx's files as nginx does.
type nginxReader struct {
	root      fs.FS
	dir       string // what relative names are meant from
	files     int
	blocks    []string // that are open, by their names
	upstream  string
	upstreams map[string][]string
	listens   []listener // of the server block that is open
	hands     []hand     // of it, too
	server    server
}

func (r *nginxReader) file(name string, depth int) {
	if r.files++; r.files > mostServerFiles || depth > mostDepth {
		return
	}
	if name = strings.TrimPrefix(path.Clean(name), "/"); !isTrusted(r.root, name) {
		return
	}
	var words []string
	for rest := readSome(r.root, name, mostServerBytes); ; {
		var word string
		if word, rest = nginxWord(rest); word == "" {
			return
		}
		switch word {
		case ";":
			r.statement(words, depth)
			words = nil
		case "{":
			if len(words) == 0 {
				words = []string{""}
			}
			r.open(words)
			words = nil
		case "}":
			r.close()
			words = nil
		default:
			words = append(words, word)
		}
	}
}

// nginxWord takes the next word: a name, a value without its quotes, or one of ; { }. None:
// that was all.
func nginxWord(text string) (word, rest string) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if !strings.HasPrefix(text, "#") {
			break
		}
		_, text, _ = strings.Cut(text, "\n")
	}
	if text == "" {
		return "", ""
	}
	if q := text[:1]; q == `"` || q == "'" {
		word, rest, _ = strings.Cut(text[1:], q)
		return q + word, rest // so that it is neither empty nor one of ; { }
	}
	end := strings.IndexAny(text, " \t\r\n;{}")
	switch {
	case end == 0:
		end = 1
	case end < 0:
		end = len(text)
	case text[end] == '{' && text[end-1] == '$': // ${name}
		if i := strings.IndexAny(text[end+1:], " \t\r\n;{"); i >= 0 {
			end += 1 + i
		}
	}
	return text[:end], text[end:]
}

func (r *nginxReader) open(words []string) {
	if len(r.blocks) < mostDepth*4 {
		r.blocks = append(r.blocks, words[0])
	}
	switch {
	case words[0] == "server" && !slices.Contains(r.blocks, "upstream"):
		r.listens, r.hands = nil, nil
	case words[0] == "upstream" && len(words) > 1:
		r.upstream = words[1]
	}
}

// close ends the innermost block.
func (r *nginxReader) close() {
	if len(r.blocks) == 0 {
		return
	}
	name := r.blocks[len(r.blocks)-1]
	r.blocks = r.blocks[:len(r.blocks)-1]
	if name != "server" {
		return
	}
	if len(r.listens) == 0 {
		r.listens = []listener{{port: 80}}
	}
	for _, h := range r.hands {
		for _, l := range r.listens {
			h.ports = append(h.ports, l.port)
		}
		r.server.hands = append(r.server.hands, h)
	}
	r.server.listens = append(r.server.listens, r.listens...)
	r.listens, r.hands = nil, nil
}

func (r *nginxReader) statement(words []string, depth int) {
	if len(words) < 2 {
		return
	}
	value := strings.TrimLeft(words[1], `"'`)
	switch name := words[0]; {
	case name == "include":
		if !path.IsAbs(value) {
			value = path.Join(r.dir, value)
		}
		names, _ := fs.Glob(r.root, strings.TrimPrefix(path.Clean(value), "/"))
		for _, file := range names {
			r.file("/"+file, depth+1)
		}
	case slices.Contains(r.blocks, "upstream"):
		if name == "server" && len(r.upstreams[r.upstream]) < mostPools {
			r.upstreams[r.upstream] = append(r.upstreams[r.upstream], strings.TrimPrefix(value, "unix:"))
		}
	case name == "listen":
		if l, ok := listenerAt(strings.TrimPrefix(value, "unix:")); ok {
			r.listens = append(r.listens, l)
		} else if l, ok = listenerAt(value + ":80"); ok { // an address
			r.listens = append(r.listens, l)
		}
	case name == "fastcgi_pass":
		r.hands = append(r.hands, hand{to: strings.TrimPrefix(value, "unix:")})
	case strings.HasSuffix(name, "_pass") && name != "auth_basic_pass":
		r.hands = append(r.hands, hand{})
	}
}
