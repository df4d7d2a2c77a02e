//go:build world

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// browser is a real one, with a profile of its own and nobody before it.
type browser interface {
	open(url string)              // in a tab of its own, without waiting for it
	shows(url, title string) bool // in some tab
}

// chromium is driven by the addresses that its DevTools answer at.
type chromium struct {
	t    *testing.T
	http *http.Client
	url  string
}

func startChromium(t *testing.T) browser { return startChromiumWith(t) }

// startChromiumWith starts it with more words on its command line.
func startChromiumWith(t *testing.T, words ...string) browser {
	path := testkit.Program(t, "chromium", "google-chrome", "chrome")
	home := tempDir(t)
	p := startProcess(t, []string{"HOME=" + home}, path, append(words, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--user-data-dir="+filepath.Join(home, "profile"), "--remote-debugging-port=0",
		"--user-agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36", "about:blank")...)
	const listening = "DevTools listening on ws://"
	line, _ := p.stderr.await(t, 0, listening)
	_, address, _ := strings.Cut(line, listening)
	address, _, _ = strings.Cut(address, "/")
	return &chromium{t, newClient(t), "http://" + address}
}

func (c *chromium) open(page string) {
	if a := fetch(c.t, c.http, http.MethodPut, c.url+"/json/new?"+url.QueryEscape(page), nil, nil); a.StatusCode != http.StatusOK {
		c.t.Fatalf("no tab for %s: %s %s", page, a.Status, a.body)
	}
}

func (c *chromium) shows(page, title string) bool {
	var tabs []struct{ URL, Title string }
	a := fetch(c.t, c.http, http.MethodGet, c.url+"/json/list", nil, nil)
	if err := json.Unmarshal([]byte(a.body), &tabs); err != nil {
		c.t.Fatalf("%v: %s", err, a.body)
	}
	for _, tab := range tabs {
		if tab.URL == page && html.UnescapeString(tab.Title) == title {
			return true
		}
	}
	return false
}

// firefox is driven by Marionette: JSON with its length before it.
type firefox struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	tabs []string
	last int
}

func startFirefox(t *testing.T) browser {
	path := testkit.Program(t, "firefox-esr", "firefox")
	home, port := tempDir(t), freePort(t)
	profile := filepath.Join(home, "profile")
	if err := os.Mkdir(profile, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(profile, "user.js"), "user_pref('marionette.port', "+port+");\nuser_pref('network.proxy.type', 0);\n"+
		"user_pref('browser.shell.checkDefaultBrowser', false);\nuser_pref('datareporting.policy.dataSubmissionEnabled', false);\n")
	p := startProcess(t, []string{"HOME=" + home, "MOZ_DISABLE_CONTENT_SANDBOX=1"}, path, "--headless", "--marionette", "--no-remote", "--profile", profile)
	f := &firefox{t: t}
	testkit.Eventually(t, "Firefox listens", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("Firefox ended with status %d:\n%s", p.status, p.stderr)
		default:
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		f.conn = conn
		return err == nil
	})
	t.Cleanup(func() { _ = f.conn.Close() })
	f.in = bufio.NewReader(f.conn)
	_ = f.read() // its greeting
	f.do("WebDriver:NewSession", map[string]any{"pageLoadStrategy": "none"})
	return f
}

func (f *firefox) read() (message []byte) {
	_ = f.conn.SetReadDeadline(time.Now().Add(testkit.Patience))
	var length int
	_, err := fmt.Fscanf(f.in, "%d:", &length)
	if err == nil {
		message = make([]byte, length)
		_, err = io.ReadFull(f.in, message)
	}
	if err != nil {
		f.t.Fatalf("Firefox says nothing: %v", err)
	}
	return message
}

// do has Firefox do something and returns what it tells of it.
func (f *firefox) do(command string, with map[string]any) (value any) {
	f.last++
	text, err := json.Marshal([]any{0, f.last, command, with})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(text), text); err != nil {
		f.t.Fatal(err)
	}
	var reply [4]any
	if err := json.Unmarshal(f.read(), &reply); err != nil || reply[2] != nil {
		f.t.Fatalf("%s: %v %v", command, err, reply[2])
	}
	return reply[3]
}

func (f *firefox) open(page string) {
	tab, _ := f.do("WebDriver:NewWindow", map[string]any{"type": "tab"}).(map[string]any)
	handle, _ := tab["handle"].(string)
	f.tabs = append(f.tabs, handle)
	f.do("WebDriver:SwitchToWindow", map[string]any{"handle": handle})
	f.do("WebDriver:Navigate", map[string]any{"url": page})
}

func (f *firefox) shows(page, title string) bool {
	told := func(command string) any {
		value, _ := f.do(command, nil).(map[string]any)
		return value["value"]
	}
	for _, handle := range f.tabs {
		f.do("WebDriver:SwitchToWindow", map[string]any{"handle": handle})
		if told("WebDriver:GetCurrentURL") == page && told("WebDriver:GetTitle") == title {
			return true
		}
	}
	return false
}
