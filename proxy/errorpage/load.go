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
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"
)

// forAllHosts is the base name of the template for hosts that don't have their own.
const forAllHosts = "error"

// Load makes all pages from the administrator's templates in dir, or only from the shipped template if dir is
// empty. The error joins all faults of the templates.
func Load(dir string) (*Set, error) {
	dialects, err := readDialects()
	if err != nil {
		return nil, err
	}
	templates, err := readTemplates(dir)
	if templates[forAllHosts] == nil && err == nil {
		templates[forAllHosts], err = template.ParseFS(shipped, "page.html")
	}
	if err != nil {
		return nil, err
	}
	s := &Set{hosts: make(map[string]pages, len(templates))}
	for host, t := range templates {
		p, e := makePages(t, dialects)
		s.hosts[host], err = p, errors.Join(err, e)
	}
	tags := make([]language.Tag, 0, len(dialects))
	for _, d := range dialects {
		tags = append(tags, d.tag)
	}
	s.matcher = language.NewMatcher(tags)
	s.chosen, _ = lru.New[string, int](remembered) // the size is valid
	return s, err
}

// dialect is a language of the pages, with its texts.
type dialect struct {
	tag   language.Tag
	texts *texts
}

// readDialects reads the shipped texts of each language. English comes first, because clients that ask for none
// of these languages get the first.
func readDialects() ([]dialect, error) {
	entries, err := shipped.ReadDir("texts")
	if err != nil {
		return nil, err
	}
	var all []dialect
	for _, e := range entries {
		raw, err := shipped.ReadFile("texts/" + e.Name())
		if err != nil {
			return nil, err
		}
		d := dialect{language.Make(strings.TrimSuffix(e.Name(), ".json")), new(texts)}
		if err := json.Unmarshal(raw, d.texts); err != nil {
			return nil, fmt.Errorf("the texts in %s: %w", e.Name(), err)
		}
		if d.tag == language.English {
			all = slices.Insert(all, 0, d)
		} else {
			all = append(all, d)
		}
	}
	return all, nil
}

// readTemplates reads the administrator's templates, by host. It ignores other files.
func readTemplates(dir string) (map[string]*template.Template, error) {
	all := make(map[string]*template.Template)
	if dir == "" {
		return all, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("errorPages.directory: %w", err)
	}
	for _, e := range entries {
		if host, ok := strings.CutSuffix(e.Name(), ".html"); ok && !strings.HasPrefix(host, ".") {
			t, fault := readTemplate(filepath.Join(dir, e.Name()))
			all[host], err = t, errors.Join(err, fault)
		}
	}
	return all, err
}

// longestPage bounds a template, in bytes.
const longestPage = 64 << 10

func readTemplate(path string) (*template.Template, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("errorPages: %w", err)
	}
	if len(text) > longestPage {
		return nil, fmt.Errorf("errorPages: %s has %d bytes; %d are allowed", path, len(text), longestPage)
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("errorPages: %s:%d: is not UTF-8. If the file is in Latin-1, convert it with iconv -f latin1 -t utf-8", path, i+1)
		}
	}
	t, err := template.New(path).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("errorPages: %w", err)
	}
	return t, nil
}

//go:embed texts page.html
var shipped embed.FS

// data are the fields that templates can use.
type data struct {
	Language           string
	Status             int
	StatusText         string // standard text of the status, in English
	Cause              string
	Title, What, Todo  string
	RequestLabel       string
	Wait, RetryAfter   *hole // time to wait, in words and in seconds; nil: unknown
	RequestID, Address *hole // Address is set only if the client's address or network is the cause
}

// makePages makes the pages of a template. It stops at the first fault.
func makePages(t *template.Template, dialects []dialect) (pages, error) {
	all := make(pages, len(dialects))
	for i := range dialects {
		for c := range Cause(causes) {
			p, err := makePage(t, &dialects[i], c)
			if err != nil {
				return nil, fmt.Errorf("errorPages: %w", err)
			}
			all[i][c] = p
		}
	}
	return all, nil
}

func makePage(t *template.Template, in *dialect, c Cause) (*Page, error) {
	said, client, wait := in.texts.Causes[c.String()], &hole{client}, &hole{wait}
	d := data{
		Language: in.tag.String(), Status: c.Status(), StatusText: http.StatusText(c.Status()), Cause: c.String(),
		Title:     said.Title,
		What:      strings.ReplaceAll(said.What, "{client}", client.String()),
		Todo:      strings.ReplaceAll(said.Todo, "{wait}", wait.String()),
		RequestID: &hole{requestID}, RequestLabel: in.texts.Request,
	}
	if c.namesClient() {
		d.Address = client
	}
	if c.waits() {
		d.Wait, d.RetryAfter = wait, &hole{retryAfter}
	}
	var out strings.Builder
	if err := t.Execute(&out, d); err != nil {
		return nil, err
	}
	return &Page{language: d.Language, html: cut(out.String()), text: cut(d.What + " " + d.Todo), texts: in.texts}, nil
}

// texts holds the texts of the pages in one language.
type texts struct {
	Request string // caption of the request's id
	// Second, Minute and Hour hold the singular and the plural of each unit.
	Second, Minute, Hour [2]string
	Causes               map[string]says
}

// says are the texts for a cause.
type says struct {
	Title string
	What  string // what happened; {client} stands for the client's own address or network
	Todo  string // what a person can do; {wait} stands for the time to wait
}

// appendWait appends a number of seconds in words. It uses minutes above 90 s, and hours above 90 minutes,
// rounded up.
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
