package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// plain lists words and patterns that the manual and messages must not use, and what to write instead.
var plain = []struct {
	pattern *regexp.Regexp
	write   string
}{
	{regexp.MustCompile(`(?i)\b(nobody|anybody|somebody|everybody)\b`), "the client, the program, or no one"},
	{regexp.MustCompile(`\b[Ww]hoever\b|(?:^|[.:;(] )Who (?:[^?]*)$`), "a client that, users who"},
	{regexp.MustCompile(`(?:^|[.;] )What [^?]*[a-z]\.`), "the subject first"},
	{regexp.MustCompile(`(?i)\b(dear|dearer|dearest)\b`), "expensive"},
	{regexp.MustCompile(`(?i)\bstands? (before|behind|in front)\b`), "is in front of"},
	{regexp.MustCompile(`(?i)\b(un)?sound\b`), "valid, invalid"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bblanks\b`), "spaces"},
	{regexp.MustCompile(`(?i)\breckon`), "calculate, allow for"},
	{regexp.MustCompile(`(?i)\b(hangs?|hung) up\b|\bhas gone\b`), "disconnect"},
	{regexp.MustCompile(`(?i)\b(is|are|be) taken for\b`), "counts as"},
	{regexp.MustCompile(`(?i)\bturned away\b`), "rejected"},
	{regexp.MustCompile(`(?i)\bswap them\b`), "switch over"},
	{regexp.MustCompile(`(?i)\bthe way back\b`), "undo"},
	{regexp.MustCompile(`(?i)\bsome dozens?\b`), "a few dozen, or the number"},
	{regexp.MustCompile(`(?i)\b(lately|of late)\b`), "recently"},
	{regexp.MustCompile(`(?i)\b(is|are|has|have) to be\b`), "must"},
	{regexp.MustCompile(`(?i)\b(all the same|likewise|meanwhile)\b`), "still, also, until then"},
	{regexp.MustCompile(`(?i)\b(but for|but that|so far as|at one go|in place of that)\b`), "except, as far as, at once, instead"},
	{regexp.MustCompile(`(?i)\bby (itself|themselves)\b`), "automatically"},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, compared with, in addition to"},
	{regexp.MustCompile(`, too\.`), "also"},
	{regexp.MustCompile(`\b(tells|knows) (it|that|what|who|how|of)\b`), "shows, reports"},
}

// codeInText matches quotations in a page: names, commands and links may contain any words.
var codeInText = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)")

// TestPlainWords: the manual and the programs' messages use the words of system administrators. There are no
// exceptions: "no one" is a person, and everything else has a name.
func TestPlainWords(t *testing.T) {
	for path := range pages(t) {
		if !strings.HasPrefix(path, "docs/") && path != "README.md" && !strings.HasPrefix(path, "deploy/") {
			continue
		}
		source := testkit.ReadFile(t, filepath.Join("..", path))
		text := codeInText.ReplaceAllStringFunc(source, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
		for i, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, "    ") {
				isPlain(t, path+":"+strconv.Itoa(i+1), line)
			}
		}
	}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if name := e.Name(); err != nil || e.IsDir() && (name == "testdata" || name == "internal" && filepath.Dir(path) == ".." || strings.HasPrefix(name, ".") && name != "..") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
					at := files.Position(literal.Pos())
					for line := range strings.SplitSeq(text, "\n") {
						isPlain(t, strings.TrimPrefix(at.Filename, "../")+":"+strconv.Itoa(at.Line), line)
					}
				}
			}
			return true
		})
		return nil
	})
	testkit.Must(t, err)
}

// isPlain reports the words that a line must not use.
func isPlain(t *testing.T, where, text string) {
	t.Helper()
	for _, p := range plain {
		if found := p.pattern.FindString(text); found != "" {
			t.Errorf("%s: %q: write: %s\n\t%s", where, found, p.write, text)
		}
	}
}
