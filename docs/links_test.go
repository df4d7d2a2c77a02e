// Package docs_test checks the documentation: its links lead somewhere, and it builds as a site that loads
// nothing from other servers.
package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"gopkg.in/yaml.v3"

	"tempomat/internal/testkit"
)

// page is a Markdown file.
type page struct {
	path    string // from the root of the repository
	anchors map[string]bool
	links   []string
}

// pages returns all Markdown files in the repository.
func pages(t *testing.T) map[string]*page {
	t.Helper()
	all := map[string]*page{}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "bin" || name == "site") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		p, err := readPage(path)
		if err == nil {
			all[p.path] = p
		}
		return err
	})
	testkit.Must(t, err)
	return all
}

func readPage(path string) (*page, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &page{path: strings.TrimPrefix(filepath.ToSlash(path), "../"), anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.anchors[p.free(slug(words(n, source)))] = true
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// free returns a unique anchor for a heading whose words occur more than once.
func (p *page) free(anchor string) string {
	for i := 1; p.anchors[anchor]; i++ {
		anchor = strings.TrimRight(anchor, "0123456789") + string(rune('0'+i))
	}
	return anchor
}

// words returns the text of a heading, without markup.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// slug returns the anchor that GitHub, and mkdocs with this configuration, give to a heading.
func slug(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
			return unicode.ToLower(c)
		case c == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
}

// TestLinks: each link inside the repository leads to an existing file and heading.
func TestLinks(t *testing.T) {
	all := pages(t)
	checked := 0
	for _, p := range all {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %s: %v", p.path, link, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				continue
			}
			checked++
			target := p.path
			if u.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), u.Path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil || strings.HasPrefix(target, "..") {
				t.Errorf("%s: %s is not there", p.path, link)
				continue
			}
			if to := all[target]; u.Fragment != "" && (to == nil || !to.anchors[u.Fragment]) {
				t.Errorf("%s: %s: there is no such heading", p.path, link)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were looked at", checked)
	}
}

// TestPackageHasWhatItsPagesLinkTo: in the package, each link of a page also leads to a file.
func TestPackageHasWhatItsPagesLinkTo(t *testing.T) {
	var built struct {
		Contents []struct{ Src, Dst, Type string }
	}
	testkit.Must(t, yaml.Unmarshal([]byte(testkit.ReadFile(t, "../deploy/package/nfpm.yaml")), &built))
	const root = "/usr/share/doc/tempomat/"
	has := func(path string) bool {
		for _, c := range built.Contents {
			at, ok := strings.CutPrefix(c.Dst, root)
			if ok && (at == path || c.Type == "tree" && strings.HasPrefix(path, at+"/")) {
				return true
			}
		}
		return false
	}
	checked := 0
	for _, p := range pages(t) {
		if !has(p.path) {
			continue
		}
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil || u.Scheme != "" || u.Path == "" {
				continue
			}
			checked++
			if to := filepath.ToSlash(filepath.Join(filepath.Dir(p.path), u.Path)); !has(to) {
				t.Errorf("%s: the package has no %s", p.path, to)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were looked at", checked)
	}
}

// TestSlug: slug gives the same results as GitHub.
func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"How do I": "how-do-i", "What the answers of tempomat mean": "what-the-answers-of-tempomat-mean",
		"Why, and beside what": "why-and-beside-what", "robots.txt": "robotstxt", "HTTP/2": "http2", "a – b": "a--b", "`-replace` now": "-replace-now",
	} {
		testkit.Same(t, want, slug(strings.ReplaceAll(heading, "`", "")), "%s", heading)
	}
}

// TestArchitectureNamesWhatIsThere: each path in ARCHITECTURE.md exists, and its file declares the symbols
// that are named after it.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text := testkit.ReadFile(t, "../ARCHITECTURE.md")
	named := regexp.MustCompile("`([a-z0-9./-]+/[a-z0-9./_-]*)`(?: `([A-Za-z]+)`)?").FindAllStringSubmatch(text, -1)
	if len(named) < 40 {
		t.Fatalf("only %d paths are named", len(named))
	}
	for _, m := range named {
		path, symbol := filepath.Join("..", m[1]), m[2]
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
			continue
		}
		if symbol == "" {
			continue
		}
		if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + symbol + `\b`).MatchString(testkit.ReadFile(t, path)) {
			t.Errorf("%s declares no %s", path, symbol)
		}
	}
}

// TestListsOfFilesNameWhatIsThere: each file in a package doc's list is in that package, and each file that a
// page next to the code names exists.
func TestListsOfFilesNameWhatIsThere(t *testing.T) {
	listed := map[string]*regexp.Regexp{
		".go": regexp.MustCompile(`(?m)^//\t([a-z0-9_]+\.go)\s`),
		".md": regexp.MustCompile("`([a-z0-9_/]+\\.go)`"),
	}
	found := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || listed[filepath.Ext(path)] == nil || filepath.Dir(path) == ".." {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(path, filepath.Join("..", "docs")) {
			return err
		}
		for _, m := range listed[filepath.Ext(path)].FindAllSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || found < 60 {
		t.Errorf("%d files are listed: %v", found, err)
	}
}
