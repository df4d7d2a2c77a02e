package dashboard

import (
	"os"
	"path/filepath"
	"testing"
)

// looks are the screens that the page is looked at on.
func looks() map[string]look {
	return map[string]look{
		"phone-light": {360, 800, "light", true}, "phone-dark": {360, 800, "dark", true},
		"desktop-light": {1280, 800, "light", false}, "desktop-dark": {1280, 800, "dark", false},
		"wall-light": {2560, 1440, "light", false}, "wall-dark": {2560, 1440, "dark", false},
	}
}

const loaded = `document.querySelectorAll('#shapes tbody tr').length > 3 && document.querySelectorAll('#recent tbody tr').length > 3 &&
	document.querySelectorAll('#keys tbody tr').length > 3 && document.querySelectorAll('#queue tbody tr').length > 3 &&
	document.querySelectorAll('.picture .edge').length > 3 && document.querySelectorAll('.lines li').length > 1 &&
	document.querySelector('#state').textContent === 'Live'`

// keep writes a screenshot where the environment asks for it.
func keep(t *testing.T, p *tab, name string, whole bool) {
	t.Helper()
	dir := os.Getenv("TEMPOMAT_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), p.picture(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPageInChromium(t *testing.T) {
	c := startChromium(t)
	_, url := startFake(t, "")
	for name, l := range looks() {
		p := c.open(l)
		p.visit(url)
		p.await(name+" is loaded", loaded)
		keep(t, p, name, false)
		keep(t, p, name+"-whole", true)
		var wide int
		p.eval("document.documentElement.scrollWidth - innerWidth", &wide)
		if wide > 0 {
			t.Errorf("%s: the page is %d pixels wider than the screen", name, wide)
		}
	}
	if bad := c.complaints(); len(bad) > 0 {
		t.Errorf("complaints: %q", bad)
	}
}
