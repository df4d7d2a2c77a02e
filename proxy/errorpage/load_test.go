package errorpage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWhichPage: a host's own page takes precedence over the page for all hosts. Templates can distinguish
// statuses and languages.
func TestWhichPage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "error.html", `{{if eq .Status 502}}down {{else if eq .Language "de"}}Pardon {{end}}{{.Language}} {{.Status}} {{.Cause}} {{.Wait}}`)
	write(t, dir, "wiki.example.html", "wiki {{.Language}} {{.Title}}")
	testkit.Must(t, os.Symlink("wiki.example.html", filepath.Join(dir, "www.wiki.example.html")))
	write(t, dir, ".error.html.swp", "an editor's")
	write(t, dir, "error.html~", "an editor's")
	s := load(t, dir)
	for _, tc := range []struct {
		host, asked string
		cause       Cause
		want        string
	}{
		{"h", "en", Unsound, "en 400 unsound "},
		{"h", "en", DebtOfNetwork, "en 429 debt-of-network 5 seconds"},
		{"h", "de", OverLimit, "Pardon de 429 over-limit 5 Sekunden"},
		{"h", "nl", BackendDown, "down en 502 backend-down "},
		{"wiki.example", "en", WrongMethod, "wiki en This is not possible here"},
		{"WIKI.example.:8080", "de", WrongMethod, "wiki de Das geht hier nicht"},
		{"www.wiki.example", "fr", WrongMethod, "wiki en This is not possible here"},
		{"../wiki.example", "en", Unsound, "en 400 unsound "},
		{"[2001:db8::1]:80", "en", Unsound, "en 400 unsound "},
		{"", "en", Unsound, "en 400 unsound "},
	} {
		v := &Values{RetryAfter: 5}
		testkit.Same(t, tc.want, string(s.Find(tc.host, []string{tc.asked}, tc.cause).AppendHTML(nil, v)), "%s in %s for %s", tc.cause, tc.asked, tc.host)
	}
}

// TestFaults: the error names each faulty file, with the line.
func TestFaults(t *testing.T) {
	long := strings.Repeat("x", longestPage+1)
	for _, tc := range []struct{ name, text, want string }{
		{"error.html", "a\nb {{.Nothing}}\n", "error.html:2:"},
		{"error.html", "a\n\n{{if}}\n", "error.html:3: missing value for if"},
		{"error.html", "a\n{{end}}", "error.html:2: unexpected {{end}}"},
		{"error.html", "{{.Title", "error.html:1: unclosed action"},
		{"error.html", "\n<a href='{{if .What}}'{{end}}>x</a>", "error.html:2:14: {{if}} branches end in different contexts"},
		{"error.html", "\n{{if eq .RequestID \"a\"}}x{{end}}", "error.html:2:"},
		{"error.html", "\n{{slice .RequestID 1 2}}", "error.html:2:"},
		{"error.html", "\n{{len .RequestID}}", "error.html:2:"},
		{"error.html", "\n{{if gt .RetryAfter 60}}x{{end}}", "error.html:2:"},
		{"error.html", "\n{{template \"other\"}}", "error.html:2:11: "},
		{"error.html", "a\nGer\xe4t\n", "error.html:2: is not UTF-8"},
		{"error.html", long, "error.html has 65537 bytes; 65536 are allowed"},
		{"deep.html/error.html", "", "deep.html: is a directory"},
		{"wiki.example.html", "{{.X}}", "wiki.example.html:1:2: executing"},
	} {
		dir := t.TempDir()
		write(t, dir, tc.name, tc.text)
		_, err := Load(dir)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s with %.40q: %v, want %q", tc.name, tc.text, err, tc.want)
		}
		if err != nil && strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s is told several times: %v", tc.name, err)
		}
	}
}

func TestNoDirectory(t *testing.T) {
	dir := t.TempDir() + "/none"
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir+": no such file or directory") {
		t.Error(err)
	}
}
