package errorpage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"
)

const (
	mostFiles     = 256
	mostHosts     = 64
	mostLanguages = 16
	// mostBytes bounds all pages together.
	mostBytes = 16 << 20
)

// Options say which pages there are.
type Options struct {
	Directory string   // of templates; empty: the shipped page only
	Languages []string // tags of BCP 47, the first for who asks for none of them; at least one
}

// dialect is one of the languages.
type dialect struct {
	tag   language.Tag
	texts *texts // nil: none are shipped
}

// Load makes all pages. The error is what is wrong with them, a *Fault for each file, joined.
func Load(o Options) (*Set, error) {
	l := loader{holes: newHoles()}
	if err := l.setLanguages(o.Languages); err != nil {
		return nil, err
	}
	text, err := shipped.ReadFile("page.html")
	if err != nil {
		return nil, err
	}
	if l.usual, err = parse("page.html", string(text)); err != nil {
		return nil, err
	}
	l.general = &scope{}
	l.hosts = map[string]*scope{}
	if o.Directory != "" {
		l.general = l.readDirectory(o.Directory, "")
	}
	if len(l.faults) > 0 {
		return nil, errors.Join(l.faults...)
	}
	s := l.makeAll(o.Directory)
	return s, errors.Join(l.faults...)
}

// loader is what Load has come to know.
type loader struct {
	holes    holes
	dialects []dialect
	usual    *file
	general  *scope
	hosts    map[string]*scope
	files    int
	faults   []error
}

// scope is the templates of a host, or of all, by status ("429", "4xx", "error") and language
// ("429.de").
type scope struct{ files map[string]*file }

func (l *loader) fault(path, format string, args ...any) {
	l.faults = append(l.faults, &Fault{File: path, Says: fmt.Sprintf(format, args...)})
}

func (l *loader) setLanguages(names []string) error {
	if len(names) == 0 || len(names) > mostLanguages {
		return fmt.Errorf("errorPages.languages: %d are given; 1 to %d are allowed", len(names), mostLanguages)
	}
	for _, name := range names {
		tag, err := language.Parse(name)
		if err != nil {
			return fmt.Errorf("errorPages.languages: %q is no language; give a tag such as en, de or pt-BR", name)
		}
		if _, twice := l.dialect(tag.String()); twice {
			return fmt.Errorf("errorPages.languages: %s is given twice", tag)
		}
		t, err := textsIn(tag)
		if err != nil {
			return err
		}
		l.dialects = append(l.dialects, dialect{tag, t})
	}
	return nil
}

func (l *loader) dialect(name string) (tag string, known bool) {
	for _, d := range l.dialects {
		if strings.EqualFold(d.tag.String(), name) {
			return d.tag.String(), true
		}
	}
	return "", false
}

// readDirectory reads the templates of a host, or those for all and then the directories of
// hosts.
func (l *loader) readDirectory(dir, host string) *scope {
	s := &scope{files: make(map[string]*file)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.fault(dir, "%s", bare(err))
		return s
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") {
			continue // an editor's, or version control's
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			l.readHost(path, e.Name(), host)
			continue
		}
		l.readTemplate(s, path, e.Name())
	}
	return s
}

func (l *loader) readHost(path, name, inside string) {
	switch {
	case inside != "":
		l.fault(path, "is a directory in that of a host")
	case hostOf(name) != name || strings.ContainsAny(name, " /"):
		l.fault(path, "is a directory whose name is no host in small letters, without a port")
	case len(l.hosts) == mostHosts:
		l.fault(path, "is one host too many; %d are allowed", mostHosts)
	default:
		l.hosts[name] = l.readDirectory(path, name)
	}
}

// readTemplate reads one file, whose name says what it is for.
func (l *loader) readTemplate(s *scope, path, name string) {
	parts := regexp.MustCompile(`^(error|4xx|5xx|[0-9]{3})(\.[A-Za-z0-9-]+)?\.html$`).FindStringSubmatch(name)
	if parts == nil {
		l.fault(path, "is no page; the names of pages are error.html, 4xx.html, 429.html, 429.de.html and so on")
		return
	}
	status, tongue := parts[1], strings.TrimPrefix(parts[2], ".")
	if _, err := strconv.Atoi(status); err == nil && !isAnswered(status) {
		l.fault(path, "is for a status that is never answered; those are %s", strings.Join(answered(), ", "))
		return
	}
	key := status
	if tongue != "" {
		tag, known := l.dialect(tongue)
		if !known {
			l.fault(path, "is in a language that errorPages.languages does not name")
			return
		}
		key += "." + tag
	}
	if l.files++; l.files > mostFiles {
		l.fault(path, "is one page too many; %d are allowed", mostFiles)
		return
	}
	f, err := readFile(path)
	if err != nil {
		l.faults = append(l.faults, err)
		return
	}
	s.files[key] = f
}

// answered are the statuses that the proxy answers by itself.
func answered() (all []string) {
	seen := map[int]bool{}
	for c := range Cause(causes) {
		if s := c.Status(); !seen[s] {
			seen[s] = true
			all = append(all, strconv.Itoa(s))
		}
	}
	return all
}

func isAnswered(status string) bool {
	return slices.Contains(answered(), status)
}

// find is the template for a cause in a language: of the host's first, then of those for all; of
// each the one for the status, then for its hundred, then for any; of each the one in the
// language, then one without. Nil: there is none.
func (l *loader) find(host *scope, in *dialect, c Cause) *file {
	status := strconv.Itoa(c.Status())
	for _, s := range []*scope{host, l.general} {
		if s == nil {
			continue
		}
		for _, key := range []string{status, status[:1] + "xx", "error"} {
			if f := s.files[key+"."+in.tag.String()]; f != nil {
				return f
			}
			if f := s.files[key]; f != nil && in.texts != nil {
				return f
			}
		}
	}
	if in.texts != nil {
		return l.usual
	}
	return nil
}

// makeAll makes the pages.
func (l *loader) makeAll(dir string) *Set {
	tags := make([]language.Tag, len(l.dialects))
	for i, d := range l.dialects {
		tags[i] = d.tag
	}
	s := &Set{languages: newLanguages(tags), hosts: make(map[string]pages, len(l.hosts))}
	s.general = l.makePages(dir, nil)
	for host, scope := range l.hosts {
		s.hosts[host] = l.makePages(dir, scope)
	}
	bytes := 0
	for p := range s.each() {
		bytes += p.size()
	}
	if bytes > mostBytes {
		l.fault(dir, "makes pages of %d bytes in all; %d are allowed", bytes, mostBytes)
	}
	return s
}

// makePages makes those of a host, or of all.
func (l *loader) makePages(dir string, host *scope) pages {
	all := make(pages, len(l.dialects))
	for i := range l.dialects {
		in := &l.dialects[i]
		for c := range Cause(causes) {
			f := l.find(host, in, c)
			if f == nil {
				l.fault(filepath.Join(dir, "error."+in.tag.String()+".html"), "is missing: errorPages.languages names %s, and no texts in it are shipped", in.tag)
				break
			}
			if f.failed {
				continue
			}
			p, err := f.make(&l.holes, in, c)
			if err != nil {
				f.failed = true // it is told once
				l.faults = append(l.faults, err)
			}
			all[i][c] = p
		}
	}
	return all
}
