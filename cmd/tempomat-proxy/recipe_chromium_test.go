//go:build world

package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// person has a real Chromium, with one tab.
type person struct {
	t       *testing.T
	out     *os.File
	in      chan devToolsReply
	session string
	last    int
}

// devToolsReply is what the browser says to a command.
type devToolsReply struct {
	ID     int
	Result json.RawMessage
	Error  *struct{ Message string }
}

// startPerson starts a browser that believes the machine's certificate and finds its site.
func startPerson(m *machine) *person {
	m.t.Helper()
	path := testkit.Program(m.t, "chromium", "google-chrome", "chrome")
	toBrowser, out, err := os.Pipe()
	m.must(err)
	in, fromBrowser, err := os.Pipe()
	m.must(err)
	home := tempDir(m.t)
	site, err := x509.ParseCertificate(m.key.Certificate[0])
	m.must(err)
	key := sha256.Sum256(site.RawSubjectPublicKeyInfo)
	startProcessWith(m.t, []*os.File{toBrowser, fromBrowser}, []string{"HOME=" + home}, path, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--no-proxy-server", "--user-data-dir="+filepath.Join(home, "profile"), "--remote-debugging-pipe",
		"--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]),
		"--host-resolver-rules=MAP www.example.org:443 127.0.0.1:"+m.gate("443")+", MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
	m.must(toBrowser.Close())
	m.must(fromBrowser.Close())
	p := &person{t: m.t, out: out, in: make(chan devToolsReply, 16)}
	ended := make(chan struct{})
	go p.listen(in, ended)
	m.t.Cleanup(func() {
		_ = out.Close() // the browser ends with it
		<-ended
		_ = in.Close()
	})
	var target struct{ TargetID string }
	p.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	p.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p.session = session.SessionID
	return p
}

// listen takes in replies; what the browser says of its own accord is not asked for.
func (p *person) listen(in *os.File, ended chan<- struct{}) {
	defer close(ended)
	defer close(p.in)
	from := bufio.NewReader(in)
	for {
		text, err := from.ReadBytes(0)
		if err != nil {
			return
		}
		var reply devToolsReply
		if json.Unmarshal(text[:len(text)-1], &reply) == nil && reply.ID > 0 {
			p.in <- reply
		}
	}
}

// do has the browser do something.
func (p *person) do(method string, with map[string]any, result any) {
	p.t.Helper()
	p.last++
	command := map[string]any{"id": p.last, "method": method, "params": with}
	if p.session != "" {
		command["sessionId"] = p.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.out.Write(append(text, 0)); err != nil {
		p.t.Fatal(err)
	}
	select {
	case reply, ok := <-p.in:
		if !ok || reply.ID != p.last || reply.Error != nil {
			p.t.Fatalf("%s: %+v", method, reply)
		}
		if err := json.Unmarshal(reply.Result, result); err != nil {
			p.t.Fatalf("%s: %v", method, err)
		}
	case <-time.After(testkit.Patience):
		p.t.Fatalf("%s is not answered", method)
	}
}

// open goes to a page, without waiting for it.
func (p *person) open(url string) {
	p.t.Helper()
	p.do("Page.navigate", map[string]any{"url": url}, &struct{}{})
}

// sees runs a script in the page and returns what it gives, as text. Where the page cannot run
// it yet that is empty.
func (p *person) sees(script string) string {
	p.t.Helper()
	var reply struct{ Result struct{ Value any } }
	p.do("Runtime.evaluate", map[string]any{"expression": "String((() => { try { " + script + " } catch (e) { return '' } })() ?? '')", "returnByValue": true}, &reply)
	text, _ := reply.Result.Value.(string)
	return text
}

// awaits waits until a script gives "true".
func (p *person) awaits(what, script string) {
	p.t.Helper()
	deadline := time.Now().Add(2 * testkit.Patience)
	for p.sees("return "+script) != "true" {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not within %v; the page is %s", what, 2*testkit.Patience, p.sees("return location.href + ': ' + document.title + ': ' + document.body.innerText.slice(0, 500)"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}
