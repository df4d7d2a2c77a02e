package errorpage

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// longestPage bounds a file, and what it makes, in bytes.
const longestPage = 64 << 10

// file is one template.
type file struct {
	path     string
	template *template.Template
	made     map[string]*Page // by language and cause
	failed   bool
}

// readFile reads a template. What is wrong with it is a *Fault.
func readFile(path string) (*file, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, &Fault{File: path, Says: bare(err)}
	case !info.Mode().IsRegular():
		return nil, &Fault{File: path, Says: "is no file"}
	case info.Size() > longestPage:
		return nil, &Fault{File: path, Says: fmt.Sprintf("has %d bytes; %d are allowed", info.Size(), longestPage)}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &Fault{File: path, Says: bare(err)}
	}
	if !utf8.Valid(text) {
		line := 1 + bytes.Count(text[:validEnd(text)], []byte("\n"))
		return nil, &Fault{File: path, Line: line, Says: "is not UTF-8, which pages are sent as; iconv -f latin1 -t utf-8 makes it so of Latin-1"}
	}
	return parse(path, string(text))
}

// validEnd is where text stops being UTF-8.
func validEnd(text []byte) (at int) {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// bare is an error without the file that it is about.
func bare(err error) string {
	if in, ok := errors.AsType[*os.PathError](err); ok {
		err = in.Err
	}
	return err.Error()
}

// parse makes a file of its text.
func parse(path, text string) (*file, error) {
	t, err := template.New(path).Parse(text)
	if err != nil {
		return nil, faultOf(path, err)
	}
	return &file{path: path, template: t, made: make(map[string]*Page)}, nil
}

// faultOf tells the line that an error of a template is in. It stands after the name, with
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

// data is what templates have.
type data struct {
	Language           string
	Status             int
	StatusText         string // of HTTP, in English
	Cause              string
	Title, What, Todo  string // empty in languages that no texts are shipped in
	Again              string // the sentence that says when to try again; empty: nobody knows
	RequestLabel       string
	Wait, RetryAfter   *hole // in words, and in seconds; nil: nobody knows
	RequestID, Address *hole // Address is nil where the cause is not the client's address
}

// make makes the page for a cause, once.
func (f *file) make(h *holes, in *dialect, c Cause) (*Page, error) {
	key := in.tag.String() + " " + c.String()
	if p := f.made[key]; p != nil {
		return p, nil
	}
	d := data{
		Language: in.tag.String(), Status: c.Status(), StatusText: http.StatusText(c.Status()), Cause: c.String(), RequestID: h.requestID,
	}
	if c.namesClient() {
		d.Address = h.client
	}
	if c.waits() {
		d.Wait, d.RetryAfter = h.wait, h.retryAfter
	}
	units := symbols()
	if t := in.texts; t != nil {
		units = t
		said := t.Causes[c.String()]
		d.Title, d.Todo, d.RequestLabel = said.Title, said.Todo, t.Request
		d.What = strings.ReplaceAll(said.What, "{client}", h.client.mark)
		if c.waits() {
			d.Again = strings.ReplaceAll(t.Again, "{wait}", h.wait.mark)
		}
	}
	out := bounded{most: longestPage}
	if err := f.template.Execute(&out, d); err != nil {
		return nil, faultOf(f.path, err)
	}
	p := h.cut(out.text.String(), d.Language, units)
	f.made[key] = p
	return p, nil
}

// bounded is a text of at most so many bytes.
type bounded struct {
	text bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		return 0, fmt.Errorf("the page has more than %d bytes", b.most)
	}
	return b.text.Write(p)
}
