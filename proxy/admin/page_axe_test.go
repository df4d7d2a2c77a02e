//go:build world

package admin

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
)

// The tests get axe-core from npm and check its hash. It is not in the repository because it has a different
// licence, MPL-2.0.
const (
	axeVersion   = "4.14.1"
	axeIntegrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// loadAxe fetches axe-core once. An empty text means that npm is missing or can't reach the registry.
var loadAxe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	pack := exec.Command("npm", "pack", "--silent", "--prefer-offline", "axe-core@"+axeVersion)
	pack.Dir = dir
	if pack.Run() != nil {
		return "", nil
	}
	archive := filepath.Join(dir, "axe-core-"+axeVersion+".tgz")
	data, err := os.ReadFile(archive)
	if err != nil {
		return "", err
	}
	sum := sha512.Sum512(data)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != axeIntegrity {
		return "", fmt.Errorf("axe-core is another one: %s", got)
	}
	text, err := exec.Command("tar", "-xzOf", archive, "package/axe.min.js").Output()
	return string(text), err
})

func fetchAxe(t *testing.T) string {
	t.Helper()
	text, err := loadAxe()
	testkit.Must(t, err)
	if text == "" {
		t.Log("npm cannot fetch axe-core: accessibility is not checked")
	}
	return text
}

// checkAxe runs axe to look for faults in the page's accessibility.
func checkAxe(t *testing.T, p *testkit.Tab, axe, what string) {
	t.Helper()
	if axe == "" {
		return
	}
	p.Eval(`window.axe ? null : (() => {`+axe+`; return null})()`, nil)
	var found []struct {
		ID, Impact string
		Nodes      []struct {
			HTML           string
			FailureSummary string
		}
	}
	p.Eval(`axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map(({id, impact, nodes}) => ({id, impact, nodes: nodes.slice(0, 3).map(({html, failureSummary}) => ({html: html.slice(0, 300), failureSummary}))})))`, &found)
	for _, v := range found {
		var where []string
		for _, n := range v.Nodes {
			where = append(where, n.HTML+"\n  "+n.FailureSummary)
		}
		t.Errorf("%s: axe finds %s (%s):\n%s", what, v.ID, v.Impact, strings.Join(where, "\n"))
	}
}
