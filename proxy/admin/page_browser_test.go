//go:build world

package admin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// looks are the screens that the page is looked at on.
func looks() map[string]testkit.Look {
	all := map[string]testkit.Look{}
	for screen, l := range map[string]testkit.Look{
		"phone": {Width: 360, Height: 800, Phone: true}, "desktop": {Width: 1280, Height: 800}, "wall": {Width: 2560, Height: 1440},
	} {
		for _, l.Scheme = range []string{"light", "dark"} {
			all[screen+"-"+l.Scheme] = l
		}
	}
	return all
}

const loaded = `document.querySelectorAll('#shapes tbody tr').length > 3 && document.querySelectorAll('#recent tbody tr').length > 3 &&
	document.querySelectorAll('#keys tbody tr').length > 3 && document.querySelectorAll('#queue tbody tr').length > 3 &&
	document.querySelectorAll('.picture .edge').length > 3 && document.querySelectorAll('.lines li').length > 1 &&
	document.querySelector('#state').textContent === 'Live'`

// The variables that say where screenshots go: all of them, or those of the manual.
const (
	allPictures    = "TEMPOMAT_SCREENSHOTS"
	manualPictures = "TEMPOMAT_SCREENSHOTS_DOCS"
)

// keep writes a screenshot into the directory that the variable names, if any.
func keep(t *testing.T, p *testkit.Tab, variable, name string, whole bool) {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), p.Picture(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}

func checkComplaints(t *testing.T, c *testkit.Chromium) {
	t.Helper()
	if bad := c.Complaints(); len(bad) > 0 {
		t.Errorf("in the console:\n%s", strings.Join(bad, "\n"))
	}
}

// openPage opens the page of a fake without a token, on a screen of looks, and waits until
// all of it is there.
func openPage(t *testing.T, name string) (f *fake, url string, p *testkit.Tab) {
	t.Helper()
	f, url = startFake(t, "")
	p = testkit.StartChromium(t).Open(looks()[name])
	p.Visit(url)
	p.Await("it is loaded", loaded)
	return f, url, p
}

// TestWorldPageOnEveryScreen looks at the page on a phone, a desktop and a wall: nothing stands
// out at its side, axe finds nothing, and the console stays empty. Axe takes seconds for each
// look: it looks once at each screen, in light as it comes, in dark with an explanation open.
func TestWorldPageOnEveryScreen(t *testing.T) {
	c := testkit.StartChromium(t)
	axe := fetchAxe(t)
	_, url := startFake(t, "")
	for name, l := range looks() {
		p := c.Open(l)
		p.Visit(url)
		p.Await(name+" is loaded", loaded)
		keep(t, p, allPictures, name, false)
		keep(t, p, allPictures, name+"-whole", true)
		if name == "desktop-light" || name == "phone-dark" {
			keep(t, p, manualPictures, "dashboard-"+name, false)
		}
		checkWidth(t, p, name)
		if l.Scheme == "light" {
			checkAxe(t, p, axe, name)
		}
		p.Eval(`document.querySelectorAll('.expand')[0].click(), document.querySelectorAll('.numbers summary')[0].click(), document.querySelector('#queue .who').click()`, nil)
		p.Await(name+": the explanation is there", `document.querySelector('#side .summary')`)
		p.Await("it stands still", `document.getAnimations().length === 0`)
		keep(t, p, allPictures, name+"-explain", false)
		checkWidth(t, p, name+" with an explanation")
		if l.Scheme == "dark" {
			checkAxe(t, p, axe, name+" with an explanation")
		}
		p.Close()
	}
	checkComplaints(t, c)
}

func checkWidth(t *testing.T, p *testkit.Tab, what string) {
	t.Helper()
	var wide int
	p.Eval("document.documentElement.scrollWidth - innerWidth", &wide)
	if wide > 0 {
		t.Errorf("%s: the page is %d pixels wider than the screen", what, wide)
	}
}

// TestWorldPageShowsTheNumbers compares what the page shows with what the API tells.
func TestWorldPageShowsTheNumbers(t *testing.T) {
	f, _, p := openPage(t, "desktop-light")
	o := f.overview()
	for selector, want := range map[string]string{
		"#cpu": "3.62", "#wasted": "0.21", "#waiting": "67", "#strangers": "1,432", "#backend": "11", "#turned": "3.60", "#release": "v2.3.0 · fair · up 2 d 3 h",
		".f-cpu .note": "of 4.00 CPUs, 91 %", ".f-waiting .note": "longest 29.4 s",
	} {
		if got := p.Text(selector); got != want {
			t.Errorf("%s: %q, want %q", selector, got, want)
		}
	}
	if got := p.Text("#conditions .bad"); got != "The site answers with errors. Check <b>the log</b>." {
		t.Errorf("what is wrong now: %q", got)
	}
	if got := p.Text("#finding"); !strings.Contains(got, "59 % (2.12 of 3.62 CPUs used), goes to strangers") ||
		!strings.Contains(got, "/w/index.php?title&diff&oldid, 1.61 CPUs for 903 addresses, 46 % of it to 203.0.0.0/16") {
		t.Errorf("the finding names not the attack: %s", got)
	}
	groups := p.Rows("#groups")
	for i, g := range o.Groups {
		want := []string{g.Name, fmt.Sprintf("%.2f", g.CPU), fmt.Sprintf("%.0f %%", 100*g.CPU/o.CPU)}
		if got := groups[i][:3]; !slices.Equal(got, want) || groups[i][8] != fmt.Sprint(g.Waiting) {
			t.Errorf("group %d: %q, want %q", i, groups[i], want)
		}
	}
	rows := p.Rows("#shapes")
	for i, s := range shapes().Rows[:3] {
		want := []string{"+" + s.Shape, fmt.Sprintf("%.2f", s.CPU), fmt.Sprintf("%.3g", s.Rate)}
		if want[2] == "3.1" || want[2] == "1.2" {
			want[2] += "0"
		}
		if got := rows[i]; !slices.Equal(got[:3], want) || got[4] != fmt.Sprint(s.Addresses) {
			t.Errorf("page %d: %q, want %q", i, got, want)
		}
	}
	if got := p.Rows("#recent")[0]; !strings.HasPrefix(got[6], "debt of slash16 203.0.0.0/16") || got[5] != "refused 429" || got[7] != "30.0 s" {
		t.Errorf("verdict: %q", got)
	}
	if got, all := len(p.Rows("#queue")), len(queue().Rows); got != all {
		t.Errorf("%d rows of the queue, want %d", got, all)
	}
	// The chart's numbers are the points'.
	p.Eval(`document.querySelector('.numbers summary').click()`, nil)
	p.Await("the numbers are shown", `document.querySelectorAll('.numbers tbody tr').length > 20`)
	var same string
	p.Eval(`(async () => {
		const {points} = await (await fetch('v1/series?minutes=5')).json();
		const two = (n) => String(n).padStart(2, '0');
		const at = Object.fromEntries(points.map((p) => { const d = new Date(p.at * 1000); return [two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds()), p]; }));
		let compared = 0;
		for (const row of document.querySelectorAll('.numbers tbody tr')) {
			const cells = [...row.children].map((c) => c.textContent);
			const p = at[cells[0]];
			if (!p) continue;
			compared++;
			const want = [...p.cpu, p.wasted].map((x) => x.toFixed(2));
			if (want.join() !== cells.slice(1).join()) return cells + ' is not ' + want;
		}
		return compared > 20 ? '' : 'only ' + compared;
	})()`, &same)
	if same != "" {
		t.Error(same)
	}
	checkComplaints(t, p.Chromium)
}

// TestWorldPageIsHarmless has clients choose texts with markup, terminal commands and letters
// that run backwards.
func TestWorldPageIsHarmless(t *testing.T) {
	_, _, p := openPage(t, "desktop-dark")
	p.Eval(`document.querySelectorAll('.expand').forEach((b) => b.click()); document.querySelector('#class').value = 'userAgent';
		document.querySelector('#class').dispatchEvent(new Event('change', {bubbles: true})); document.querySelector('#recent .who').click()`, nil)
	p.Await("agents are shown", `document.querySelector('#keys tbody').textContent.includes('<img') && document.querySelector('#side .summary')`)
	var found struct {
		Title          string
		Images, Styles int
		Raw            bool
		Shown          bool
	}
	p.Eval(`({title: document.title, images: document.querySelectorAll('img, iframe, a[href^="javascript"]').length, styles: document.querySelectorAll('style, [style], [onerror], [onclick]').length,
		raw: /[\u202e\u001b]/.test(document.body.textContent), shown: document.body.textContent.includes('a=\\u{202e}gnp.exe\\u{1b}[31m\\u{a}&b=')})`, &found)
	if found.Title != "! 67 waiting, CPU 91 %: tempomat" || found.Images+found.Styles > 0 || found.Raw || !found.Shown {
		t.Errorf("%+v", found)
	}
	checkComplaints(t, p.Chromium)
}

// TestWorldPageByKeyboard goes through the page with the keyboard alone.
func TestWorldPageByKeyboard(t *testing.T) {
	_, _, p := openPage(t, "desktop-light")
	p.Eval(`document.querySelector('#pause').click()`, nil) // rows that come and go would be others each time
	p.Await("it is paused", `document.querySelector('#state').textContent === 'Paused'`)
	p.Eval(`document.querySelector('#pause').blur()`, nil)
	var all, unseen int
	p.Eval(`(window.all = [...document.querySelectorAll('button, input:not([type=radio]), input:checked, select, summary, a[href], [tabindex="0"]')].filter((e) => e.checkVisibility() && !e.closest('dialog')), all.length)`, &all)
	for range all + 5 {
		p.Press("Tab")
		var ok bool
		p.Eval(`(() => { const e = document.activeElement; e.reached = true; if (e === document.body) return true;
			const s = getComputedStyle(e.matches('input[type=radio]') ? e.nextElementSibling : e); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1; })()`, &ok)
		if !ok {
			unseen++
		}
	}
	var missed []string
	p.Eval(`all.filter((e) => !e.reached).map((e) => e.outerHTML.slice(0, 90))`, &missed)
	if len(missed) > 0 || unseen > 0 {
		t.Errorf("of %d, the keyboard does not reach %q; %d times the focus was not seen", all, missed, unseen)
	}
	p.Eval(`document.querySelector('.picture').focus()`, nil)
	p.Press("ArrowLeft")
	p.Press("ArrowLeft")
	p.Await("the cursor moved", `document.querySelector('.when').textContent !== 'now' && /known [0-9.]+/.test(document.activeElement.getAttribute('aria-valuetext'))`)
	p.Press("Enter")
	p.Await("it is told who it was", `document.querySelector('#side-title').textContent.startsWith('Who it was at') && document.querySelector('#side').textContent.includes('Dearest pages of the last')`)
	p.Await("it stands still", `document.getAnimations().length === 0`)
	keep(t, p, allPictures, "desktop-moment", false)
	p.Press("Escape")
	p.Await("the focus is back", `document.querySelector('#side').hidden && document.activeElement.matches('.picture')`)
	p.Press("Home")
	p.Press("Enter")
	p.Await("the history tells who it was", `document.querySelector('#side').textContent.includes('Dearest of slash16')`)
	checkComplaints(t, p.Chromium)
}

// TestWorldPageWithAToken is denied without one, asks for it, keeps it, and forgives with it.
func TestWorldPageWithAToken(t *testing.T) {
	c := testkit.StartChromium(t)
	f, url := startFake(t, "let-me-in")
	p := c.Open(looks()["phone-light"])
	p.Visit(url)
	give := func(text string) {
		p.Await("it asks for the token", `document.querySelector('#ask-token').open`)
		p.Eval(fmt.Sprintf(`document.querySelector('#token-text').value = %q; document.querySelector('#token-form').requestSubmit()`, text), nil)
	}
	p.Await("it asks for the token", `document.querySelector('#ask-token').open && document.activeElement.id === 'token-text'`)
	keep(t, p, allPictures, "phone-token", false)
	checkComplaints(t, c)
	checkAxe(t, p, fetchAxe(t), "asking for the token")
	give("let-me-out")
	p.Await("it says that it is wrong", `document.querySelector('#ask-token').open && document.querySelector('#token-fault').textContent.includes('missing or wrong')`)
	give("let-me-in")
	p.Await("it is loaded", loaded)
	p.Visit(url + "/?again")
	p.Await("it is loaded again, with the token that it kept", loaded)
	p.Eval(`document.querySelector('#keys .who').click()`, nil)
	p.Await("it can forgive", `document.querySelector('.forgive')`)
	p.Eval(`document.querySelector('.forgive').click()`, nil)
	p.Await("it forgave", `document.querySelector('#side').textContent.includes('forgave 203.0.113.10')`)
	f.mu.Lock()
	if !slices.Equal(f.posts, []string{"slash32 203.0.113.10"}) {
		t.Errorf("forgiven: %q", f.posts)
	}
	f.mu.Unlock()
	var kept map[string]string
	p.Eval(`({...localStorage, cookie: document.cookie, url: location.href})`, &kept)
	if text, _ := json.Marshal(kept); strings.Contains(string(text), "let-me-in") {
		t.Errorf("the token is kept for longer than the tab: %s", text)
	}
	for _, text := range c.Complaints() {
		if !strings.Contains(text, "401") { // which is told there whatever the page does
			t.Errorf("in the console: %s", text)
		}
	}
}

// TestWorldPageWithoutATokenCannotForgive: there is no button for it.
func TestWorldPageWithoutATokenCannotForgive(t *testing.T) {
	_, _, p := openPage(t, "desktop-light")
	p.Eval(`document.querySelector('#keys .who').click()`, nil)
	p.Await("the explanation is there", `document.querySelector('#side .summary')`)
	var buttons int
	p.Eval(`document.querySelectorAll('.forgive').length`, &buttons)
	if buttons > 0 || !strings.Contains(p.Text("#side"), "once the token was given") {
		t.Errorf("%d buttons: %s", buttons, p.Text("#side"))
	}
}

// TestWorldPageStaysLive loses its connection, comes back, pauses, and shows other times.
func TestWorldPageStaysLive(t *testing.T) {
	f, url, p := openPage(t, "desktop-light")
	f.setAway(true)
	p.Await("it says that it lost the connection", `document.querySelector('#state').textContent.startsWith('Connection lost; next attempt in')`)
	f.setAway(false)
	p.Await("it is back", `document.querySelector('#state').textContent === 'Live'`)
	for minutes, every := range map[int]float64{60: 10, 1440: 60} {
		p.Eval(fmt.Sprintf(`document.querySelector('#range input[value="%d"]').click()`, minutes), nil)
		p.Await(fmt.Sprintf("%d minutes are shown", minutes), fmt.Sprintf(`Number(document.querySelector('.picture').getAttribute('aria-valuemax')) >= %v`, float64(minutes*60)/every-1))
		keep(t, p, allPictures, fmt.Sprintf("desktop-%d", minutes), false)
	}
	p.Eval(`document.querySelector('#theme').click(), document.querySelector('#theme').click()`, nil)
	p.Visit(url + "/?again")
	p.Await("the theme is kept", `document.documentElement.dataset.theme === 'dark' && getComputedStyle(document.body).backgroundColor === 'rgb(14, 18, 22)'`)
	p.Await("it is loaded", loaded)
	p.Eval(`document.querySelector('#pause').click()`, nil)
	p.Await("it is paused", `document.querySelector('#state').textContent === 'Paused'`)
	for _, text := range p.Complaints() {
		if !strings.Contains(text, "ERR_EMPTY_RESPONSE") {
			t.Errorf("in the console: %s", text)
		}
	}
}
