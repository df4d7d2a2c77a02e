package config

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tempomat/config/form"
	"tempomat/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata/config")

// configurations returns the files in a directory, except those with expected texts.
func configurations(t testing.TB, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("..", "testdata", "config", folder, "*"))
	testkit.Must(t, err)
	return slices.DeleteFunc(all, func(name string) bool {
		ext := filepath.Ext(name)
		return ext != ".yaml" && ext != ".json"
	})
}

// sectionKeys matches the part of a message that names all keys of a section, and which therefore changes with each
// new key. Package form tests that part.
var sectionKeys = regexp.MustCompile(`must be a mapping with the keys? .*`)

func TestBad(t *testing.T) {
	files := configurations(t, "bad")
	if len(files) < 25 {
		t.Fatalf("only %d bad configurations", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := []byte(testkit.ReadFile(t, file))
			c, err := Parse(data, filepath.Base(file), nil)
			if err == nil || c != nil {
				t.Fatalf("got %v, %v; want faults and no configuration", c, err)
			}
			testkit.Golden(t, *update, file+".err", sectionKeys.ReplaceAllString(err.Error(), "must be a mapping with the keys …")+"\n")
			checkFaults(t, err, bytes.Count(data, []byte("\n")))
		})
	}
}

// checkFaults checks that each fault has a line of the file, in order.
func checkFaults(t *testing.T, err error, lines int) {
	t.Helper()
	var faults Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("got %T, want Faults", err)
	}
	last := 1
	for _, f := range faults {
		if f.Line < last || f.Line > lines {
			t.Errorf("line %d after %d, of %d: %v", f.Line, last, lines, f)
		}
		last = f.Line
		if f.Problem == "" || strings.Contains(f.Error(), "\n") {
			t.Errorf("no problem, or more than one line: %q", f.Error())
		}
	}
}

// TestGood: each file differs from the defaults exactly as its expected text says. New keys don't appear in these
// texts.
func TestGood(t *testing.T) {
	for _, file := range configurations(t, "good") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := Load(file, nil)
			testkit.Must(t, err)
			testkit.Golden(t, *update, file+".txt", changesFromDefault(c))
		})
	}
}

// changesFromDefault returns a line for each key that differs from its default, and for each warning.
func changesFromDefault(c *Config) string {
	var b strings.Builder
	for _, change := range Changed(Default(), c) {
		fmt.Fprintf(&b, "%s: %s, not %s\n", change.Key, cmp.Or(change.New, "none"), cmp.Or(change.Old, "none"))
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	return b.String()
}

// TestShippedFileIsTheDefault: the shipped file changes nothing and shows every key.
func TestShippedFileIsTheDefault(t *testing.T) {
	c, err := Load("../deploy/tempomat.yaml", nil)
	testkit.Must(t, err)
	testkit.Same(t, Default(), c, "deploy/tempomat.yaml")
	text := testkit.ReadFile(t, "../deploy/tempomat.yaml")
	for _, s := range canonical(newDraft(Default())) {
		key := s.Path[strings.LastIndexByte(s.Path, '.')+1:]
		if !strings.Contains(text, key+":") {
			t.Errorf("deploy/tempomat.yaml doesn't show %s", s.Path)
		}
	}
}

// TestRemovedKeysCauseWarnings: every removed key causes a warning, whatever its value, both in a file and as a
// variable, and everything else still loads.
func TestRemovedKeysCauseWarnings(t *testing.T) {
	for _, s := range goneSettings() {
		for _, c := range []*Config{
			parse(t, s.Path+": {a: [1]}\ncpuCount: 3\n"), parse(t, "cpuCount: 3", form.Variable(s.Path)+"=x"),
		} {
			if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], s.Gone) || c.CPUCount != 3 {
				t.Errorf("%s: %q", s.Path, c.Warnings)
			}
		}
	}
}

// TestOlderLimits: the forms of limits in earlier releases still have the same meaning.
func TestOlderLimits(t *testing.T) {
	for text, want := range map[string]Limit{
		"size: 5, dripRate: 10s":                        {Rate: Rate{1, 10 * time.Second}, Burst: 5},
		"size: 5":                                       {Rate: Rate{1, time.Second}, Burst: 5},
		"size: 10, dripRate: 250ms, dripSize: 4":        {Rate: Rate{4, 250 * time.Millisecond}, Burst: 10},
		"max: 300, duration: 1h, minInterval: 100ms":    {Rate: Rate{300, time.Hour}},
		"minInterval: 90s, factors: {session: 0.5}":     {Rate: Rate{1, 90 * time.Second}},
		"rate: 100 per 15 min":                          {Rate: Rate{100, 15 * time.Minute}},
		"rate: 7/sec, burst: 20, factors: {trusted: 0}": {Rate: Rate{7, time.Second}, Burst: 20},
	} {
		c := parse(t, "limits: [{name: a, "+text+"}]")
		want.Name, want.Class = "a", "slash32"
		testkit.Same(t, []Limit{want}, c.Limits, "%s", text)
	}
}

// TestRedisURL: a URL can set everything about the server, as did the keys of earlier releases.
func TestRedisURL(t *testing.T) {
	for text, want := range map[string]RedisServer{
		"addresses: a:1": {Address: "a:1"},
		"addresses: ['rediss://u@a:1/3?ca=/f&timeout=2s']":                           {Address: "a:1", Username: "u", Database: 3, TLS: true, CA: "/f", Timeout: 2 * time.Second},
		"addresses: [a:1], tls: true, username: u, database: 3, ca: /f, timeout: 2s": {Address: "a:1", Username: "u", Database: 3, TLS: true, CA: "/f", Timeout: 2 * time.Second},
		"addresses: /run/r.sock, database: 2, username: u":                           {Address: "/run/r.sock", Username: "u", Database: 2},
	} {
		c := parse(t, "coordination: {redis: {"+text+"}}")
		testkit.Same(t, want, c.Coordination.Redis.Server(), "%s", text)
	}
}
