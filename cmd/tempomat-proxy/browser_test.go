//go:build world

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// browser is a real one, with a profile of its own and nobody before it.
type browser interface {
	open(url string)              // in a tab of its own, without waiting for it
	shows(url, title string) bool // in some tab
}

// chromium says that it is not headless, which robots are.
type chromium struct{ *testkit.Chromium }

func startChromium(t *testing.T) browser { return startChromiumWith(t) }

// startChromiumWith starts it with more words on its command line.
func startChromiumWith(t *testing.T, words ...string) browser {
	return chromium{testkit.StartChromium(t, append(words,
		"--user-agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36")...)}
}

func (c chromium) open(page string) {
	c.Do("", "Target.createTarget", map[string]any{"url": page}, nil)
}

func (c chromium) shows(page, title string) bool {
	var all struct {
		TargetInfos []struct{ URL, Title string }
	}
	c.Do("", "Target.getTargets", nil, &all)
	return slices.Contains(all.TargetInfos, struct{ URL, Title string }{page, title})
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
	p.listens("127.0.0.1:" + port)
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	f := &firefox{t: t, conn: conn}
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
