package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Statement is a directive of nginx, with the block that may follow it. Libraries for nginx's
// files rewrite whole files; setup replaces single words, so each word has its position in the
// file.
type Statement struct {
	File  *ConfigFile
	Begin int // bytes from the start of the file, of its first word
	End   int // after its semicolon or opening brace
	Words []string
	Block []*Statement
	Open  bool // it has a block, which may be empty
}

// Name is its first word.
func (s *Statement) Name() string { return s.Words[0] }

// Line is where the statement begins, from 1.
func (s *Statement) Line() int { return strings.Count(s.File.Text[:s.Begin], "\n") + 1 }

// Place names the statement for people.
func (s *Statement) Place() string { return fmt.Sprintf("%s:%d", s.File.Path, s.Line()) }

// Find returns the statements of that name in the block itself, included files too.
func (s *Statement) Find(name string) (found []*Statement) {
	for _, c := range s.Block {
		if c.Name() == name {
			found = append(found, c)
		}
	}
	return found
}

// Walk lists a statement and all below it.
func (s *Statement) Walk() []*Statement {
	all := []*Statement{s}
	for _, c := range s.Block {
		all = append(all, c.Walk()...)
	}
	return all
}

// nginxParser reads files as nginx does.
type nginxParser struct {
	included func(pattern string) []*ConfigFile
	depth    int // of blocks, and of files that include each other
}

// ParseNginx reads the main file and what it includes: included are the files of a pattern. With
// an error it returns what is before what it does not understand.
func ParseNginx(main *ConfigFile, included func(pattern string) []*ConfigFile) (*Statement, error) {
	p := &nginxParser{included: included}
	root := &Statement{File: main, Words: []string{"main"}, Open: true}
	err := p.file(main, &root.Block)
	return root, err
}

func (p *nginxParser) file(f *ConfigFile, list *[]*Statement) error {
	if err := p.statements(&nginxTokens{file: f}, false, list); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

var errUnmatched = errors.New("braces or semicolons do not match")

// statements reads up to the closing brace of a block, or to the end of a file.
func (p *nginxParser) statements(t *nginxTokens, inBlock bool, list *[]*Statement) error {
	if p.depth++; p.depth > mostDepth {
		return errors.New("blocks, or files that include each other, are too deep")
	}
	defer func() { p.depth-- }()
	s := &Statement{File: t.file}
	for {
		word, at, kind := t.next()
		switch {
		case kind == endOfFile && len(s.Words) == 0 && !inBlock, kind == closing && len(s.Words) == 0 && inBlock:
			return nil
		case kind == endOfFile, kind == closing:
			return errUnmatched
		case kind == aWord:
			if len(s.Words) == 0 {
				s.Begin = at
			}
			s.Words = append(s.Words, word)
		case len(s.Words) > 0: // else it is empty
			s.End = t.pos
			*list = append(*list, s)
			if err := p.finish(s, t, kind, list); err != nil {
				return err
			}
			s = &Statement{File: t.file}
		}
	}
}

// finish reads the block of a statement, or what it includes.
func (p *nginxParser) finish(s *Statement, t *nginxTokens, kind tokenKind, list *[]*Statement) error {
	switch {
	case kind == opening && strings.HasSuffix(s.Name(), "_by_lua_block"):
		return fmt.Errorf("line %d: %s holds a program", s.Line(), s.Name())
	case kind == opening:
		s.Open = true
		return p.statements(t, true, &s.Block)
	case s.Name() == "include" && len(s.Words) == 2:
		for _, f := range p.included(s.Words[1]) {
			if err := p.file(f, list); err != nil {
				return err
			}
		}
	}
	return nil
}

type tokenKind int

const (
	aWord tokenKind = iota
	opening
	closing
	semicolon
	endOfFile
)

// nginxTokens parts a file into words, braces and semicolons.
type nginxTokens struct {
	file *ConfigFile
	pos  int
}

func (t *nginxTokens) next() (word string, at int, kind tokenKind) {
	text := t.file.Text
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
			return "", t.pos - 1, map[byte]tokenKind{'{': opening, '}': closing, ';': semicolon}[c]
		default:
			at = t.pos
			return t.word(), at, aWord
		}
	}
	return "", len(text), endOfFile
}

// word reads one word, which quotes may hold together. A brace after a dollar belongs
// to it, as in ${name}.
func (t *nginxTokens) word() string {
	text, start := t.file.Text, t.pos
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

// nginxReader takes in what matters of nginx's files: where it listens and whom it hands requests
// to. It needs no worker to wait.
type nginxReader struct {
	configReader

	dir       string // what relative names are meant from
	upstreams map[string][]string
	server    server
}

// readNginx reads the configuration of an nginx that was started by this command line, as far as
// it is understood.
func readNginx(root fs.FS, args []string) *server {
	file := "/etc/nginx/nginx.conf"
	for i, word := range args {
		if word == "-c" && i+1 < len(args) {
			file = args[i+1]
		}
	}
	r := &nginxReader{configReader: configReader{root: root}, dir: path.Dir(file), upstreams: map[string][]string{}}
	main, _ := ParseNginx(r.read(file), r.included)
	r.block(main)
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

func (r *nginxReader) included(pattern string) (files []*ConfigFile) {
	for _, name := range r.matching(r.dir, pattern) {
		files = append(files, r.read(name))
	}
	return files
}

// block takes in the servers and upstreams of a block.
func (r *nginxReader) block(s *Statement) {
	for _, c := range s.Block {
		switch {
		case !c.Open:
		case c.Name() == "upstream" && len(c.Words) > 1:
			for _, member := range c.Find("server") {
				if len(member.Words) > 1 && len(r.upstreams[c.Words[1]]) < mostPools {
					r.upstreams[c.Words[1]] = append(r.upstreams[c.Words[1]], strings.TrimPrefix(member.Words[1], "unix:"))
				}
			}
		case c.Name() == "server":
			r.serverBlock(c)
		default:
			r.block(c)
		}
	}
}

func (r *nginxReader) serverBlock(s *Statement) {
	var listens []listener
	for _, at := range s.Find("listen") {
		if len(at.Words) < 2 {
			continue
		}
		if l, ok := listenerAt(strings.TrimPrefix(at.Words[1], "unix:")); ok {
			listens = append(listens, l)
		} else if l, ok = listenerAt(at.Words[1] + ":80"); ok { // an address
			listens = append(listens, l)
		}
	}
	if len(listens) == 0 {
		listens = []listener{{port: 80}}
	}
	var ports []uint16
	for _, l := range listens {
		ports = append(ports, l.port)
	}
	for _, c := range s.Walk() {
		switch name := c.Name(); {
		case len(c.Words) < 2:
		case name == "fastcgi_pass":
			r.server.hands = append(r.server.hands, hand{to: strings.TrimPrefix(c.Words[1], "unix:"), ports: ports})
		case strings.HasSuffix(name, "_pass") && name != "auth_basic_pass":
			r.server.hands = append(r.server.hands, hand{ports: ports})
		}
	}
	r.server.listens = append(r.server.listens, listens...)
}
