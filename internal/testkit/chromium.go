package testkit

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Chromium is a real browser with its own profile, controlled through the DevTools protocol over a pipe.
type Chromium struct {
	t   testing.TB
	out *os.File

	mu      sync.Mutex // guards the fields below
	last    int
	replies map[int]chan message
	heard   []message // events
	ended   chan struct{}
}

// message is a message of the DevTools protocol.
type message struct {
	ID      int                       `json:"id,omitempty"`
	Session string                    `json:"sessionId,omitempty"`
	Method  string                    `json:"method,omitempty"`
	Params  json.RawMessage           `json:"params,omitempty"`
	Result  json.RawMessage           `json:"result,omitempty"`
	Error   *struct{ Message string } `json:"error,omitempty"`
}

// StartChromium starts a browser with additional command-line arguments. It runs until the test ends.
func StartChromium(t testing.TB, words ...string) *Chromium {
	t.Helper()
	path, home := Program(t, "chromium", "google-chrome", "chrome"), t.TempDir()
	theirIn, out, err := os.Pipe()
	Must(t, err)
	in, theirOut, err := os.Pipe()
	Must(t, err)
	words = append(words, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--no-proxy-server", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd := exec.Command(path, words...) //nolint:gosec,noctx // ended by its Cleanup
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	Must(t, cmd.Start())
	_, _ = theirIn.Close(), theirOut.Close()
	c := &Chromium{t: t, out: out, replies: make(map[int]chan message), ended: make(chan struct{})}
	go c.read(in)
	t.Cleanup(func() {
		_ = c.send(message{Method: "Browser.close"})
		timer := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		_ = out.Close()
		<-c.ended
		_ = in.Close()
		settle(home)
	})
	return c
}

// settle waits until the browser's last processes no longer use the profile.
func settle(home string) {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if os.RemoveAll(home) == nil {
			return
		}
	}
}

func (c *Chromium) read(in *os.File) {
	defer close(c.ended)
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		if reply := c.replies[m.ID]; m.ID != 0 && reply != nil {
			reply <- m
			delete(c.replies, m.ID)
		} else if m.Method != "" {
			c.heard = append(c.heard, m)
		}
		c.mu.Unlock()
	}
}

func (c *Chromium) send(m message) chan message {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	m.ID = c.last
	reply := make(chan message, 1)
	c.replies[m.ID] = reply
	text, _ := json.Marshal(m)
	_, _ = c.out.Write(append(text, 0))
	return reply
}

// Do makes the browser execute a method, and stores the result in into.
func (c *Chromium) Do(session, method string, params, into any) {
	c.t.Helper()
	if err := c.Try(session, method, params, into); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// Try does what Do does, but returns an error instead of ending the test.
func (c *Chromium) Try(session, method string, params, into any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if params == nil {
		raw = nil
	}
	select {
	case m := <-c.send(message{Session: session, Method: method, Params: raw}):
		switch {
		case m.Error != nil:
			return errors.New(m.Error.Message)
		case into != nil:
			return json.Unmarshal(m.Result, into)
		}
		return nil
	case <-c.ended:
		return errors.New("chromium ended")
	case <-time.After(Patience):
		return errors.New("chromium doesn't answer")
	}
}

// Tab is one page of the browser.
type Tab struct {
	*Chromium
	session, target string
}

// Close closes the page.
func (p *Tab) Close() {
	p.t.Helper()
	p.Chromium.Do("", "Target.closeTarget", map[string]any{"targetId": p.target}, nil)
}

// Look is how a page is displayed.
type Look struct {
	Width, Height int
	Scheme        string // light or dark
	Phone         bool
}

// Open opens an empty page.
func (c *Chromium) Open(l Look) *Tab {
	c.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	c.Do("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	c.Do("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Tab{c, attached.SessionID, target.TargetID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Do(domain+".enable", nil, nil)
	}
	p.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": l.Width, "height": l.Height, "deviceScaleFactor": 1, "mobile": l.Phone}, nil)
	scheme := map[string]any{"name": "prefers-color-scheme", "value": l.Scheme}
	p.Do("Emulation.setEmulatedMedia", map[string]any{"features": []any{scheme}}, nil)
	return p
}

// Do makes the page execute a method, and stores the result in into.
func (p *Tab) Do(method string, params, into any) {
	p.t.Helper()
	p.Chromium.Do(p.session, method, params, into)
}

// Visit loads a URL.
func (p *Tab) Visit(url string) {
	p.t.Helper()
	p.Do("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval evaluates a JavaScript expression in the page and stores its value in into.
func (p *Tab) Eval(expression string, into any) {
	p.t.Helper()
	if err := p.TryEval(expression, into); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

// TryEval does what Eval does, but returns an error instead of ending the test.
func (p *Tab) TryEval(expression string, into any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.Try(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r); err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("%s %s", r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

// Await waits until a JavaScript expression is true.
func (p *Tab) Await(what, expression string) {
	p.t.Helper()
	var err error
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var yes bool
		if err = p.TryEval("Boolean("+expression+")", &yes); err == nil && yes {
			return
		}
	}
	var text string
	_ = p.TryEval("document.body.innerText", &text)
	p.t.Fatalf("timed out: %s (%v); the page:\n%.1500s\n%s", what, err, text, strings.Join(p.Complaints(), "\n"))
}

// Text returns the text of an element.
func (p *Tab) Text(selector string) (text string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("document.querySelector(%q).textContent", selector), &text)
	return text
}

// Rows returns the texts of the cells in a table's body, row by row.
func (p *Tab) Rows(table string) (rows [][]string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("[...document.querySelectorAll('%s tbody tr')].map((r) => [...r.children].map((c) => c.textContent))", table), &rows)
	return rows
}

// Press presses a key as a user would.
func (p *Tab) Press(key string) {
	p.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Space": 32}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	switch key {
	case "Enter":
		event["text"] = "\r"
	case "Space":
		event["key"], event["text"] = " ", " "
	}
	p.Do("Input.dispatchKeyEvent", event, nil)
	delete(event, "text")
	event["type"] = "keyUp"
	p.Do("Input.dispatchKeyEvent", event, nil)
}

// Picture takes a screenshot. If whole is true, it shows the whole page, otherwise the visible part.
func (p *Tab) Picture(whole bool) []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.Do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	Must(p.t, err)
	return data
}

// Complaints returns console errors, violations of the Content-Security-Policy, and exceptions of all tabs.
func (c *Chromium) Complaints() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.heard {
		switch m.Method {
		case "Runtime.exceptionThrown":
			all = append(all, string(m.Params))
		case "Runtime.consoleAPICalled":
			var p struct{ Type string }
			if _ = json.Unmarshal(m.Params, &p); p.Type == "error" || p.Type == "warning" || p.Type == "assert" {
				all = append(all, string(m.Params))
			}
		case "Log.entryAdded":
			var p struct {
				Entry struct{ Level, Source, Text string }
			}
			if _ = json.Unmarshal(m.Params, &p); p.Entry.Level == "error" || p.Entry.Level == "warning" || p.Entry.Source == "security" {
				all = append(all, string(m.Params))
			}
		}
	}
	return all
}
