package setup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// statement is a directive of nginx, with the block that may follow it. The libraries
// that read nginx's files write them anew; here single words are exchanged, so that
// each has its place in the file.
type statement struct {
	file  *File
	begin int // bytes from the start of the file, of its first word
	end   int // after its semicolon or opening brace
	words []string
	at    []int // where each word begins
	block []*statement
	open  bool // it has a block, which may be empty
}

func (s *statement) name() string { return s.words[0] }

// line is where the statement begins, from 1.
func (s *statement) line() int { return strings.Count(s.file.Text[:s.begin], "\n") + 1 }

// place names the statement for people.
func (s *statement) place() string { return fmt.Sprintf("%s:%d", s.file.Path, s.line()) }

// find returns the statements of that name in the block itself, included files too.
func (s *statement) find(name string) (found []*statement) {
	for _, c := range s.block {
		if c.name() == name {
			found = append(found, c)
		}
	}
	return found
}

// nginxReader reads files as nginx does.
type nginxReader struct {
	files map[string]*File
	dir   string // what relative names are meant from
	depth int
}

// mostIncludes is how deep files may include each other.
const mostIncludes = 16

// parseNginx reads the main file and what it includes. A file that nginx reads and
// this function does not, or the other way around, is an error.
func parseNginx(n *Nginx) (*statement, error) {
	if len(n.Files) == 0 {
		return nil, errors.New("nginx names no file")
	}
	r := &nginxReader{files: map[string]*File{}, dir: n.Dir}
	for i := range n.Files {
		r.files[n.Files[i].Path] = &n.Files[i]
	}
	root := &statement{file: &n.Files[0], words: []string{"main"}, open: true}
	var err error
	root.block, err = r.file(&n.Files[0])
	return root, err
}

func (r *nginxReader) file(f *File) ([]*statement, error) {
	if r.depth++; r.depth > mostIncludes {
		return nil, fmt.Errorf("%s: files include each other too deep", f.Path)
	}
	defer func() { r.depth-- }()
	t := &nginxTokens{file: f}
	list, err := r.statements(t, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return list, nil
}

// statements reads up to the closing brace of a block, or to the end of a file.
func (r *nginxReader) statements(t *nginxTokens, inBlock bool) ([]*statement, error) {
	var list []*statement
	for {
		s := &statement{file: t.file}
		for {
			word, at, kind := t.next()
			if kind == endOfFile && len(s.words) == 0 && !inBlock {
				return list, nil
			}
			if kind == closing && len(s.words) == 0 && inBlock {
				return list, nil
			}
			if kind == endOfFile || kind == closing {
				return nil, errors.New("braces or semicolons do not match")
			}
			if kind == aWord {
				if len(s.words) == 0 {
					s.begin = at
				}
				s.words, s.at = append(s.words, word), append(s.at, at)
				continue
			}
			s.end = t.pos
			if len(s.words) == 0 {
				break // an empty statement
			}
			if err := r.finish(s, t, kind, &list); err != nil {
				return nil, err
			}
			break
		}
	}
}

// finish reads the block of a statement, or what it includes.
func (r *nginxReader) finish(s *statement, t *nginxTokens, kind tokenKind, list *[]*statement) (err error) {
	switch {
	case kind == opening && strings.HasSuffix(s.name(), "_by_lua_block"):
		return fmt.Errorf("line %d: %s holds a program", s.line(), s.name())
	case kind == opening:
		s.open = true
		s.block, err = r.statements(t, true)
		*list = append(*list, s)
	case s.name() == "include" && len(s.words) == 2:
		*list = append(*list, s)
		for _, f := range r.included(s.words[1]) {
			inner, err := r.file(f)
			if err != nil {
				return err
			}
			*list = append(*list, inner...)
		}
	default:
		*list = append(*list, s)
	}
	return err
}

// included are the files that a pattern names, of those that nginx says it reads.
func (r *nginxReader) included(pattern string) (files []*File) {
	if !path.IsAbs(pattern) {
		pattern = path.Join(r.dir, pattern)
	}
	for name, f := range r.files {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	return files
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
	file *File
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
