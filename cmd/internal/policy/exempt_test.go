package policy

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/internal/testkit"
)

// TestExemptionBySecret: the header must contain the secret from the file. If the file contains no secret, the error
// names the file.
func TestExemptionBySecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "monitor.secret")
	write := func(text string) {
		testkit.WriteFile(t, file, text, 0o600)
	}
	c := config.Default()
	c.Exempt = []config.Exemption{{Header: "X-Monitor-Key", Secret: file}}
	write("0123456789abcdef\n")
	classifier, err := Classifier(c, nil)
	testkit.Must(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	for value, want := range map[string]bool{"0123456789abcdef": true, "0123456789abcdef\n": false, "0123456789abcdeg": false} {
		r.Header.Set("X-Monitor-Key", value)
		var who classify.Result
		if classifier.Classify(r, &who); who.Exempt != want {
			t.Errorf("%q: exempt is %v, want %v", value, who.Exempt, want)
		}
	}
	for _, text := range []string{"", "short\n", "two lines are\nno secret", "a blank is no secret", strings.Repeat("x", longestSecret+1)} {
		write(text)
		if _, err := Classifier(c, nil); err == nil || !strings.Contains(err.Error(), "exempt[0].secret: "+file) {
			t.Errorf("a file with %.20q: error %v", text, err)
		}
	}
	c.Exempt[0].Secret += ".none"
	if _, err := Classifier(c, nil); err == nil || !strings.Contains(err.Error(), "exempt[0].secret: ") || !strings.Contains(err.Error(), file) {
		t.Errorf("no file: error %v", err)
	}
}
