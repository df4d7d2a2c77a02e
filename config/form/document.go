package form

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxFile is the largest size of a configuration, in bytes.
const MaxFile = 1 << 20

// Document parses a text that contains at most one document, and returns its mapping without duplicate keys
// and references. It returns nil if the text is empty or can't be parsed.
func (r *Reader) Document(data []byte, name string) *yaml.Node {
	whole := Source{File: name}
	if len(data) > MaxFile {
		r.Fault(whole, "", "is larger than 1 MiB")
		return nil
	}
	if line := oddLine(data); line > 0 {
		r.Fault(Source{File: name, Line: line}, "", "must be UTF-8 text without control characters")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.Faults = append(r.Faults, syntaxFault(data, name, err))
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.Fault(whole.On(&second), "", "a second document begins; only one is allowed")
	} else if !errors.Is(err, io.EOF) {
		r.Faults = append(r.Faults, syntaxFault(data, name, err))
	}
	if len(doc.Content) != 1 {
		return nil
	}
	top := doc.Content[0]
	if IsNull(top) {
		return nil
	}
	if !r.prune(whole, top) {
		return nil
	}
	if top.Kind != yaml.MappingNode {
		r.Fault(whole.On(top), "", "must be a mapping of keys to values, not "+KindName(top))
		return nil
	}
	return top
}

// oddLine returns the first line with invalid UTF-8 or a control character, or 0.
func oddLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		odd := func(c rune) bool { return c < ' ' && c != '\t' && c != '\r' || c == 0x7f }
		if !utf8.Valid(line) || bytes.ContainsFunc(line, odd) {
			return i + 1
		}
	}
	return 0
}

// prune reports and removes parts that YAML allows but this configuration doesn't: aliases, anchors, tags, merge
// keys, keys that aren't text, and duplicate keys. It returns false if the node itself must be removed.
func (r *Reader) prune(at Source, n *yaml.Node) bool {
	at = at.On(n)
	switch {
	case n.Kind == yaml.AliasNode:
		r.Fault(at, Quoted("*"+n.Value), "aliases are not allowed; write the value out")
		return false
	case n.Anchor != "":
		r.Fault(at, Quoted("&"+n.Anchor), "anchors are not allowed; write the value out")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.Fault(at, Quoted(n.Tag), "tags are not allowed")
		return false
	case n.Kind == yaml.MappingNode:
		r.prunePairs(at, n)
	case n.Kind == yaml.SequenceNode:
		i := -1
		n.Content = slices.DeleteFunc(n.Content, func(item *yaml.Node) bool {
			i++
			return !r.prune(at.Item(i), item)
		})
	}
	return true
}

func (r *Reader) prunePairs(at Source, n *yaml.Node) {
	first := make(map[string]int, len(n.Content)/2)
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := at.On(key)
		if key.Kind == yaml.ScalarNode {
			here = at.Under(key.Value).On(key)
		}
		line, twice := first[key.Value]
		switch {
		case key.Tag == "!!merge":
			r.Fault(here, "", "merge keys are not allowed; write the keys out")
		case key.Kind != yaml.ScalarNode || IsNull(key):
			r.Fault(at.On(key), "", "a key must be plain text, not "+KindName(key))
		case twice:
			r.Fault(here, "", fmt.Sprintf("is given twice, first on line %d", line))
		default:
			first[key.Value] = key.Line
			if r.prune(at, key) && r.prune(here, value) {
				kept = append(kept, key, value)
			}
		}
	}
	n.Content = kept
}

// syntaxLine extracts the line number from an error of the YAML library.
var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// unknownAnchor matches the library's error for an unknown reference, which doesn't contain a line number.
var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)

// parserMessage matches errors of the library's parser, which counts lines from 0. The library's scanner
// counts lines from 1.
var parserMessage = regexp.MustCompile(`^(did not find expected (<|node content|'-'|key|',')|found undefined tag|found duplicate %)`)

// syntaxFault reports where the text stops being valid YAML. It has its own message for tabs, because they are
// invisible and the library's message doesn't mention them.
func syntaxFault(data []byte, name string, err error) Fault {
	f := Fault{File: name, Problem: err.Error()}
	if m := syntaxLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " ")); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		if f.Line == 0 || parserMessage.MatchString(m[2]) {
			f.Line = min(f.Line+1, lineCount(data))
		}
		f.Problem = "is not valid YAML, here or below: " + m[2]
		if anchor := unknownAnchor.FindStringSubmatch(m[2]); anchor != nil {
			f.Line = lineWith(data, "*"+anchor[1])
			f.Value, f.Problem = Quoted("*"+anchor[1]), "aliases are not allowed; write the value out"
			return f
		}
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return f
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		text := bytes.TrimLeft(line, " ")
		if bytes.HasPrefix(text, []byte("\t")) && len(bytes.TrimSpace(text)) > 0 {
			f.Line, f.Problem = i+1, "is indented with a tab; YAML allows only spaces there"
			return f
		}
	}
	return f
}

func lineCount(data []byte) int {
	return 1 + bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))
}

func lineWith(data []byte, text string) int {
	before, _, found := bytes.Cut(data, []byte(text))
	if !found {
		return 0
	}
	return 1 + bytes.Count(before, []byte("\n"))
}
