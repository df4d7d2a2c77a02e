package errorpage

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
)

const (
	mostLanguages = 16
	longestPage   = 64 << 10 // bounds a file, in bytes
)

// Options say which pages there are.
type Options struct {
	Directory string   // of the administrator's templates; empty: the shipped page only
	Languages []string // tags of BCP 47, the first for clients that ask for none of them; at least one
}

// Load makes all pages. The error is what is wrong with them, a *Fault for each file, joined.
func Load(o Options) (*Set, error) {
	l := loader{holes: newHoles()}
	if err := l.setLanguages(o.Languages); err != nil {
		return nil, err
	}
	files := l.readDirectory(o.Directory)
	s := &Set{languages: newLanguages(l.tags()), hosts: make(map[string]pages, len(files))}
	if general, ok := files[forAllHosts]; ok {
		s.general = l.makePages(general)
		delete(files, forAllHosts)
	} else {
		s.general = l.shippedPages(o.Directory)
	}
	for host, f := range files {
		s.hosts[host] = l.makePages(f)
	}
	return s, errors.Join(l.faults...)
}

// loader is the state of Load.
type loader struct {
	holes    holes
	dialects []dialect
	faults   []error
}

// dialect is one of the languages.
type dialect struct {
	tag   language.Tag
	texts *texts
	known bool // the texts are in that language
}

// Fault is what is wrong with a file of pages.
type Fault struct {
	File string
	Line int // 0: the file as a whole
	Says string
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("errorPages: %s: %s", f.File, f.Says)
	}
	return fmt.Sprintf("errorPages: %s:%d: %s", f.File, f.Line, f.Says)
}

func (l *loader) fault(path, format string, args ...any) {
	l.faults = append(l.faults, &Fault{File: path, Says: fmt.Sprintf(format, args...)})
}

func (l *loader) setLanguages(names []string) error {
	if len(names) == 0 || len(names) > mostLanguages {
		return fmt.Errorf("errorPages.languages: %d are given; 1 to %d are allowed", len(names), mostLanguages)
	}
	seen := make(map[string]bool)
	for _, name := range names {
		tag, err := language.Parse(name)
		if err != nil {
			return fmt.Errorf("errorPages.languages: %q is not a language; give a tag such as en, de or pt-BR", name)
		}
		if seen[tag.String()] {
			return fmt.Errorf("errorPages.languages: %s is given twice", tag)
		}
		seen[tag.String()] = true
		t, known, err := textsIn(tag)
		if err != nil {
			return err
		}
		l.dialects = append(l.dialects, dialect{tag, t, known})
	}
	return nil
}

func (l *loader) tags() (all []language.Tag) {
	for _, d := range l.dialects {
		all = append(all, d.tag)
	}
	return all
}

// forAllHosts is the name, before .html, of the template for hosts that have none of their own.
const forAllHosts = "error"

// otherLayout is the name of a file for a status or a language, as others' error pages are named.
var otherLayout = regexp.MustCompile(`^(error\..*|([45]xx|[0-9]{3})(\..*)?)$`)

// readDirectory reads the administrator's templates, by host.
func (l *loader) readDirectory(dir string) map[string]*template.Template {
	files := make(map[string]*template.Template)
	if dir == "" {
		return files
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.fault(dir, "%s", withoutPath(err))
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~") {
			continue // an editor's, or version control's
		}
		host, isPage := strings.CutSuffix(e.Name(), ".html")
		switch {
		case !isPage || host == "" || hostOf(host) != host || strings.ContainsAny(host, " /") || otherLayout.MatchString(host):
			l.fault(path, "is not the name of a page; write %s.html for all hosts, statuses and languages, and for one host "+
				"its name in small letters, such as wiki.example.org.html. Conditions such as {{if eq .Status 429}} distinguish statuses", forAllHosts)
		default:
			if t, err := readTemplate(path); err != nil {
				l.faults = append(l.faults, err)
			} else {
				files[host] = t
			}
		}
	}
	return files
}

// readTemplate reads a template. The error is a *Fault.
func readTemplate(path string) (*template.Template, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, &Fault{File: path, Says: withoutPath(err)}
	case !info.Mode().IsRegular():
		return nil, &Fault{File: path, Says: "is not a file"}
	case info.Size() > longestPage:
		return nil, &Fault{File: path, Says: fmt.Sprintf("has %d bytes; %d are allowed", info.Size(), longestPage)}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &Fault{File: path, Says: withoutPath(err)}
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, &Fault{File: path, Line: i + 1, Says: "is not UTF-8, which pages are sent as; iconv -f latin1 -t utf-8 converts it from Latin-1"}
		}
	}
	return parse(path, string(text))
}

// withoutPath is an error without the file that it is about.
func withoutPath(err error) string {
	if in, ok := errors.AsType[*os.PathError](err); ok {
		err = in.Err
	}
	return err.Error()
}

func parse(path, text string) (*template.Template, error) {
	t, err := template.New(path).Parse(text)
	if err != nil {
		return nil, faultOf(path, err)
	}
	return t, nil
}

// faultOf finds the line that an error of a template is in. It stands after the name, with
// the column where that is known.
func faultOf(path string, err error) *Fault {
	says := err.Error()
	_, after, found := strings.Cut(says, path+":")
	if !found {
		return &Fault{File: path, Says: says}
	}
	number, rest, _ := strings.Cut(after, ":")
	line, notNumber := strconv.Atoi(number)
	if notNumber != nil {
		return &Fault{File: path, Says: says}
	}
	if column, more, found := strings.Cut(rest, ":"); found {
		if _, err := strconv.Atoi(column); err == nil {
			rest = more
		}
	}
	return &Fault{File: path, Line: line, Says: strings.TrimSpace(rest)}
}

//go:embed texts page.html
var shipped embed.FS

// shippedPages makes those of the shipped page.
func (l *loader) shippedPages(dir string) pages {
	for _, d := range l.dialects {
		if !d.known {
			l.fault(filepath.Join(dir, forAllHosts+".html"), "is missing: errorPages.languages has %s, and there are no built-in texts for it", d.tag)
		}
	}
	text, err := shipped.ReadFile("page.html")
	if err != nil {
		l.faults = append(l.faults, err)
		return nil
	}
	return l.makePages(template.Must(parse("page.html", string(text))))
}

// data is what templates have.
type data struct {
	Language           string
	Status             int
	StatusText         string // of HTTP, in English
	Cause              string
	Title, What, Todo  string // in English for languages that no texts are shipped in
	RequestLabel       string
	Wait, RetryAfter   *hole // in words, and in seconds; nil: not known
	RequestID, Address *hole // Address is nil where the cause is not the client's address
}

// makePages makes those of a template.
func (l *loader) makePages(t *template.Template) pages {
	all := make(pages, len(l.dialects))
	for i := range l.dialects {
		for c := range Cause(causes) {
			p, err := l.makePage(t, &l.dialects[i], c)
			if err != nil {
				l.faults = append(l.faults, faultOf(t.Name(), err))
				return nil // one fault of a template is enough
			}
			all[i][c] = p
		}
	}
	return all
}

func (l *loader) makePage(t *template.Template, in *dialect, c Cause) (*Page, error) {
	said := in.texts.Causes[c.String()]
	d := data{
		Language: in.tag.String(), Status: c.Status(), StatusText: http.StatusText(c.Status()), Cause: c.String(),
		Title:     said.Title,
		What:      strings.ReplaceAll(said.What, "{client}", l.holes.client.mark),
		Todo:      strings.ReplaceAll(said.Todo, "{wait}", l.holes.wait.mark),
		RequestID: l.holes.requestID, RequestLabel: in.texts.Request,
	}
	if c.namesClient() {
		d.Address = l.holes.client
	}
	if c.waits() {
		d.Wait, d.RetryAfter = l.holes.wait, l.holes.retryAfter
	}
	var out strings.Builder
	if err := t.Execute(&out, d); err != nil {
		return nil, err
	}
	return l.holes.cut(out.String(), d.Language, in.texts), nil
}

// texts are what pages say in a language.
type texts struct {
	Request string // what the id of a request is called
	// One of them, and several.
	Second, Minute, Hour [2]string
	Causes               map[string]says
}

// says is what a page says of a cause.
type says struct {
	Title string
	What  string // what has happened; {client} stands for the client's own address or network
	Todo  string // what a person can do; {wait} stands for the time to wait
}

// textsIn are those of a language; those of a region are its language's. Where none are
// shipped they are in English, with units that any language has.
func textsIn(tag language.Tag) (t *texts, known bool, err error) {
	base, _ := tag.Base()
	raw, err := shipped.ReadFile("texts/" + base.String() + ".json")
	known = err == nil
	if !known {
		raw, err = shipped.ReadFile("texts/en.json")
	}
	if err != nil {
		return nil, false, err
	}
	t = new(texts)
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, false, fmt.Errorf("the texts in %s: %w", base, err)
	}
	if !known {
		t.Second, t.Minute, t.Hour = [2]string{"s", "s"}, [2]string{"min", "min"}, [2]string{"h", "h"}
	}
	return t, known, nil
}

// appendWait appends a number of seconds in words: to the second up to 90, then in minutes and
// hours, rounded up.
func (t *texts) appendWait(b []byte, seconds int) []byte {
	n, unit := seconds, &t.Second
	if n > 90 {
		n, unit = (n+59)/60, &t.Minute
	}
	if unit == &t.Minute && n > 90 {
		n, unit = (n+59)/60, &t.Hour
	}
	b = append(strconv.AppendInt(b, int64(n), 10), ' ')
	if n == 1 {
		return append(b, unit[0]...)
	}
	return append(b, unit[1]...)
}
