//go:build world

package admin

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/admintest"
	"tempomat/proxy/admin/api"
)

// looks are the screens on which the tests open the page.
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
	document.querySelectorAll('.lines li').length > 1 &&
	document.querySelector('#state').textContent === 'Live'`

// These environment variables name directories for screenshots: for all of them, or for those of the manual.
const (
	allPictures    = "TEMPOMAT_SCREENSHOTS"
	manualPictures = "TEMPOMAT_SCREENSHOTS_DOCS"
)

// keep writes a screenshot into the directory that the variable names, if it is set.
func keep(t *testing.T, p *testkit.Tab, variable, name string, whole bool) {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name+".png"), p.Picture(whole), 0o644))
}

func checkComplaints(t *testing.T, c *testkit.Chromium) {
	t.Helper()
	if bad := c.Complaints(); len(bad) > 0 {
		t.Errorf("in the console:\n%s", strings.Join(bad, "\n"))
	}
}

// openPage opens the page of a fake without a token, on a screen of looks, and waits until it is loaded.
func openPage(t *testing.T, name string) (f *fake, url string, p *testkit.Tab) {
	t.Helper()
	f, url = startFake(t, "")
	p = testkit.StartChromium(t).Open(looks()[name])
	p.Visit(url)
	p.Await("it is loaded", loaded)
	return f, url, p
}

// TestWorldPageOnEveryScreen opens the page on a phone, a desktop and a wall. It never needs to scroll
// sideways, axe finds no fault, and the console stays empty. Axe takes seconds, so it runs once for each look:
// in light mode on the page alone, and in dark mode with an explanation open.
func TestWorldPageOnEveryScreen(t *testing.T) {
	c := testkit.StartChromium(t)
	axe := fetchAxe(t)
	f, url := startFake(t, "")
	for name, l := range looks() {
		p := c.Open(l)
		p.Visit(url)
		p.Await(name+" is loaded", loaded)
		keep(t, p, allPictures, name, false)
		keep(t, p, allPictures, name+"-whole", true)
		checkWidth(t, p, name)
		if l.Scheme == "light" {
			checkAxe(t, p, axe, name)
		}
		p.Eval(`document.querySelectorAll('.expand')[0].click(), document.querySelector('#queue .who').click()`, nil)
		p.Await(name+": the explanation is there", `document.querySelector('#side .summary')`)
		p.Await("it stands still", `document.getAnimations().length === 0`)
		keep(t, p, allPictures, name+"-explain", false)
		checkWidth(t, p, name+" with an explanation")
		if l.Scheme == "dark" {
			checkAxe(t, p, axe, name+" with an explanation")
		}
		p.Close()
	}
	f.tame()
	for _, name := range []string{"desktop-light", "phone-dark"} {
		p := c.Open(looks()[name])
		p.Visit(url)
		p.Await("the manual's page is loaded", loaded)
		keep(t, p, manualPictures, "dashboard-"+name, false)
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

// TestWorldPageShowsTheNumbers compares the page with the documents.
func TestWorldPageShowsTheNumbers(t *testing.T) {
	_, _, p := openPage(t, "desktop-light")
	o := admintest.Overview()
	for selector, want := range map[string]string{
		"#cpu": "7.41", "#wasted": "0.55", "#waiting": "412", "#strangers": "1,240", "#backend": "9", "#turned": "4.50", "#release": "1.2.3 · fair · up 3 d 0 h",
		".f-cpu .note": "of 8.00 CPUs, 93 %", ".f-waiting .note": "longest 28.2 s",
	} {
		testkit.Same(t, want, p.Text(selector), "%s", selector)
	}
	testkit.Same(t, "The site answers with errors. Check <b>the log</b>.", p.Text("#conditions .bad"), "what is wrong now")
	if got := p.Text("#finding"); !strings.Contains(got, "Most CPU: strangers, 82 % (6.08 of 7.41 CPUs used).") ||
		!strings.Contains(got, "/wiki/index.php?title&action, 4.50 CPUs for 1,240 addresses, 64 % of it for 10.1.0.0/16") {
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
	for i, s := range admintest.Shapes().Rows[:2] {
		want := []string{"+" + s.Shape, fmt.Sprintf("%.2f", s.CPU), fmt.Sprintf("%.2f", s.Rate)}
		if got := rows[i]; !slices.Equal(got[:3], want) || strings.ReplaceAll(got[4], ",", "") != fmt.Sprint(s.Addresses) {
			t.Errorf("page %d: %q, want %q", i, got, want)
		}
	}
	if got := p.Rows("#recent")[1]; !strings.HasPrefix(got[6], "debt of slash24 10.1.3.0/24") || got[5] != "refused 429" || got[7] != "400 ms" {
		t.Errorf("verdict: %q", got)
	}
	testkit.Same(t, 12, len(p.Rows("#queue")), "rows of the queue")
	checkComplaints(t, p.Chromium)
}

// TestWorldPageIsHarmless: markup, terminal commands and right-to-left letters in clients' texts do no harm.
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
	if found.Title != "! 412 waiting, CPU 93 %: tempomat" || found.Images+found.Styles > 0 || found.Raw || !found.Shown {
		t.Errorf("%+v", found)
	}
	checkComplaints(t, p.Chromium)
}

// TestWorldPageByKeyboard uses the page with the keyboard only.
func TestWorldPageByKeyboard(t *testing.T) {
	_, _, p := openPage(t, "desktop-light")
	p.Eval(`document.querySelector('#pause').click()`, nil) // otherwise rows would appear and disappear
	p.Await("it is paused", `document.querySelector('#state').textContent === 'Paused'`)
	p.Eval(`document.querySelector('#pause').blur()`, nil)
	var all, unseen int
	p.Eval(`(window.all = [...document.querySelectorAll('button, input, select, summary, a[href], [tabindex="0"]')].filter((e) => e.checkVisibility() && !e.closest('dialog')), all.length)`, &all)
	for range all + 5 {
		p.Press("Tab")
		var ok bool
		p.Eval(`(() => { const e = document.activeElement; e.reached = true; if (e === document.body) return true;
			const s = getComputedStyle(e); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1; })()`, &ok)
		if !ok {
			unseen++
		}
	}
	var missed []string
	p.Eval(`all.filter((e) => !e.reached).map((e) => e.outerHTML.slice(0, 90))`, &missed)
	if len(missed) > 0 || unseen > 0 {
		t.Errorf("of %d, the keyboard does not reach %q; %d times the focus was not seen", all, missed, unseen)
	}
	p.Eval(`document.querySelector('#queue .who').focus()`, nil)
	p.Press("Enter")
	p.Await("the explanation is there", `document.querySelector('#side .summary')`)
	p.Press("Escape")
	p.Await("the focus is back", `document.querySelector('#side').hidden && document.activeElement.matches('#queue .who')`)
	checkComplaints(t, p.Chromium)
}

// TestWorldPageWithAToken: the page asks for the token, keeps it, and uses it to forgive a debt.
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
	p.Await("it forgave", `document.querySelector('#side').textContent.includes('forgave 10.1.0.0')`)
	f.mu.Lock()
	testkit.Same(t, []string{"slash32 10.1.0.0"}, f.posts, "forgiven")
	f.mu.Unlock()
	var kept map[string]string
	p.Eval(`({...localStorage, cookie: document.cookie, url: location.href})`, &kept)
	if text, _ := json.Marshal(kept); strings.Contains(string(text), "let-me-in") {
		t.Errorf("the token is kept for longer than the tab: %s", text)
	}
	for _, text := range c.Complaints() {
		if !strings.Contains(text, "401") { // the browser itself writes this
			t.Errorf("in the console: %s", text)
		}
	}
}

// TestWorldPageWithoutATokenCannotForgive: without a token, the page has no button to forgive.
func TestWorldPageWithoutATokenCannotForgive(t *testing.T) {
	_, _, p := openPage(t, "desktop-light")
	p.Eval(`document.querySelector('#keys .who').click()`, nil)
	p.Await("the explanation is there", `document.querySelector('#side .summary')`)
	var buttons int
	p.Eval(`document.querySelectorAll('.forgive').length`, &buttons)
	if buttons > 0 || !strings.Contains(p.Text("#side"), "once you have entered the token") {
		t.Errorf("%d buttons: %s", buttons, p.Text("#side"))
	}
}

// TestWorldPageStaysLive: the page reconnects after a lost connection, keeps its theme, and can be paused.
func TestWorldPageStaysLive(t *testing.T) {
	f, url, p := openPage(t, "desktop-light")
	f.setAway(true)
	p.Await("it says that it lost the connection", `document.querySelector('#state').textContent.startsWith('Connection lost; next attempt in')`)
	f.setAway(false)
	p.Await("it is back", `document.querySelector('#state').textContent === 'Live'`)
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

// evil is a User-Agent or a URL that a client may choose.
const evil = "/w/<img src=x onerror=\"document.title='owned'\">?a=\u202egnp.exe\x1b[31m\n&b=" + `'";alert(1)//`

// fake answers with fixed documents that describe a site under attack.
type fake struct {
	*admintest.Server
	token string // token that the fake requires; empty: none

	mu    sync.Mutex // guards the fields below
	posts []string   // bodies of POST /v1/forgive
	away  bool
}

func startFake(t *testing.T, token string) (*fake, string) {
	t.Helper()
	f := &fake{Server: admintest.New(), token: token}
	overview, shapes, queue, recent, explain := admintest.Overview(), admintest.Shapes(), admintest.Queue(), admintest.Recent(), admintest.Explain()
	overview.Conditions = []api.Condition{{Name: "errors", Bad: true, What: "The site answers with errors.", Do: "Check <b>the log</b>."}}
	shapes.Rows, queue.Rows, recent.Rows = shapes.Rows[:12], queue.Rows[:12], recent.Rows[:14]
	shapes.Rows[3].Shape, shapes.Rows[3].Parameters = evil, []api.PartRow{{Name: evil, CPU: 0.3, Rate: 1.4, Mean: 0.2}}
	queue.Rows[3].URL, queue.Rows[3].Agent = evil, evil
	recent.Rows[2].URL, recent.Rows[2].Agent = evil, evil
	explain.Sections[0].Facts[1].Value = evil
	for path, document := range map[string]any{
		"overview": overview, "shapes": shapes, "queue": queue, "recent": recent, "explain": explain,
		"access": api.AccessReply{Version: 1, Token: token != ""},
		"share": api.ShareReply{Version: 1, Kind: "smockron", State: []any{
			map[string]any{"master": "tcp://10.0.0.5:10004", "domains": []string{"site.slash32"}, "present": true, "synced": true, "sent": 120345, "dropped": 0},
			map[string]any{"master": "tcp://10.0.0.6:10004", "domains": []string{"site.userAgent"}, "present": false, "synced": false, "sent": 11, "dropped": 3},
		}},
	} {
		f.Set("/v1/"+path, document)
	}
	mux := pages()
	mux.HandleFunc("/v1/", f.protected)
	mux.Handle("/v1/access", f.Server) // the page asks whether it needs the token
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return f, s.URL
}

// tame removes texts with markup and the condition, which only tests need, for the manual's pictures.
func (f *fake) tame() {
	f.Set("/v1/overview", admintest.Overview())
	shapes, queue, recent := admintest.Shapes(), admintest.Queue(), admintest.Recent()
	isHostile := func(text string) bool { return strings.Contains(text, admintest.Hostile) }
	shapes.Rows = slices.DeleteFunc(shapes.Rows[:12], func(r api.ShapeRow) bool { return isHostile(r.Shape) })
	queue.Rows = slices.DeleteFunc(queue.Rows[:12], func(r api.WaiterRow) bool { return isHostile(r.URL) })
	recent.Rows = slices.DeleteFunc(recent.Rows[:14], func(r api.VerdictRow) bool { return isHostile(r.URL) })
	f.Set("/v1/shapes", shapes)
	f.Set("/v1/queue", queue)
	f.Set("/v1/recent", recent)
}

// protected serves the documents that need the token.
func (f *fake) protected(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		panic(http.ErrAbortHandler)
	case f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, api.ErrorReply{Version: 1, Error: "the token is missing or wrong"})
	case r.Method == http.MethodPost && r.URL.Path == "/v1/forgive" && f.token != "":
		var asked api.ActRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, `{"error":"not like this"}`, http.StatusForbidden)
			return
		}
		f.posts = append(f.posts, asked.Class+" "+asked.Key)
		reply(w, api.ActReply{Version: 1, Done: "forgave " + asked.Key})
	case r.URL.Query().Get("class") == "userAgent":
		b := admintest.Buckets()
		b.Class, b.Rows = "userAgent", b.Rows[:14]
		b.Rows[0].ID, b.Rows[1].ID = "", evil
		reply(w, b)
	default:
		f.ServeHTTP(w, r)
	}
}

func reply(w http.ResponseWriter, document any) { _ = json.NewEncoder(w).Encode(document) }

// setAway makes the API break all connections.
func (f *fake) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}
