//go:build world

package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tempomat/internal/testkit"
)

// TestWorldSite builds the site as make docs does, and follows every link from its first page: each leads
// somewhere, each page can be reached without a script, and no page loads anything from other servers.
func TestWorldSite(t *testing.T) {
	program, err := exec.LookPath("mkdocs")
	if err != nil {
		if _, debian := os.Stat("/etc/debian_version"); debian == nil && os.Getenv("CI") == "true" {
			t.Fatal("mkdocs is missing: make deps")
		}
		t.Skip("mkdocs is missing: make deps")
	}
	site := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "build", "--strict", "--site-dir", site)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built := map[string]*webPage{}
	seen := follow(t, site, built)
	err = filepath.WalkDir(site, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(site, path)
		if err == nil && filepath.Ext(path) == ".html" && name != "404.html" && !seen[name] {
			t.Errorf("no link leads to %s", name)
		}
		return err
	})
	if err != nil || len(seen) < 20 {
		t.Errorf("%d pages, %v", len(seen), err)
	}
	for path := range pages(t) {
		name, ours := strings.CutPrefix(path, "docs/")
		if ours && !seen[strings.TrimSuffix(name, ".md")+".html"] {
			t.Errorf("%s is not in the site", path)
		}
	}
}

// webPage is a page of the site.
type webPage struct {
	anchors map[string]bool
	links   []string
}

// follow reads all pages that can be reached from the first one.
func follow(t *testing.T, site string, built map[string]*webPage) map[string]bool {
	t.Helper()
	seen := map[string]bool{"index.html": true}
	for next := []string{"index.html"}; len(next) > 0; next = next[1:] {
		from := next[0]
		for _, link := range readWebPage(t, site, from, built).links {
			u, err := url.Parse(link)
			if err != nil || u.Scheme != "" || u.Host != "" {
				continue
			}
			to := from
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(from), u.Path)
			}
			if info, err := os.Stat(filepath.Join(site, to)); err != nil || info.IsDir() {
				t.Errorf("%s: %s leads nowhere", from, link)
				continue
			}
			if filepath.Ext(to) != ".html" {
				continue
			}
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
			if u.Fragment != "" && !readWebPage(t, site, to, built).anchors[u.Fragment] {
				t.Errorf("%s: %s: there is no such place", from, link)
			}
		}
	}
	return seen
}

func readWebPage(t *testing.T, site, name string, built map[string]*webPage) *webPage {
	t.Helper()
	if p := built[name]; p != nil {
		return p
	}
	f, err := os.Open(filepath.Join(site, name))
	testkit.Must(t, err)
	defer f.Close()
	root, err := html.Parse(f)
	testkit.Must(t, err)
	p := &webPage{anchors: map[string]bool{}}
	built[name] = p
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case n.Type != html.ElementNode:
			case a.Key == "id", a.Key == "name" && n.Data == "a":
				p.anchors[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "src", a.Key == "href" && n.Data == "link":
				if strings.Contains(a.Val, "//") {
					t.Errorf("%s loads %s", name, a.Val)
				}
			}
		}
	}
	return p
}
