package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

func newPast(state string, hours int) (*pastHours, *config.Config, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	c := config.Default()
	c.State, c.History.Hours = state, hours
	return newPastHours(c, telemetry.NewWords(), zap.New(core)), c, logs
}

// saveHistory saves a history of three hours.
func saveHistory(t *testing.T, state string) (text []byte) {
	t.Helper()
	p, _, logs := newPast(state, 168)
	for i := range 3 {
		p.Take(time.Unix(1_800_000_000, 0).Add(time.Duration(i)*time.Hour), new(telemetry.Batch))
	}
	ended, end := context.WithCancel(context.Background())
	end()
	p.run(ended)
	text, err := os.ReadFile(state + ".history")
	if err != nil || logs.Len() > 0 {
		t.Fatal(err, logs.All())
	}
	return text
}

// TestHistorySurvives a restart, if its file is sound; else it begins anew, with a line.
func TestHistorySurvives(t *testing.T) {
	t.Parallel()
	state := filepath.Join(tempDir(t), "state")
	good := saveHistory(t, state)
	other := filepath.Join(tempDir(t), "other")
	if s, _, _ := newState(other, "x"); s.save() != nil {
		t.Fatal("no state")
	}
	foreign, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	old, later := bytes.Clone(good), bytes.Clone(good)
	old[len("tempomat saved ")+5+len("kind")+len(historyKind)+1]--
	later[len("tempomat saved ")+5+len("kind")+len(historyKind)+1]++
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 4
	for name, c := range map[string]struct {
		text  []byte
		hours int
		lines int
	}{
		"sound":           {good, 3, 0},
		"empty":           {nil, 0, 1},
		"garbage":         {[]byte("\x7fELF"), 0, 1},
		"cut off":         {good[:len(good)-1], 0, 1},
		"changed":         {changed, 0, 1},
		"another kind":    {foreign, 0, 1},
		"an old version":  {old, 0, 1},
		"another version": {later, 0, 1},
		"an old state":    {[]byte(`{"known":"eA=="}`), 0, 1},
	} {
		if err := os.WriteFile(state+".history", c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, _, logs := newPast(state, 168)
		p.load()
		if got := len(p.Reply(168).Hours); got != c.hours || logs.Len() != c.lines {
			t.Errorf("%s: %d hours, want %d; %v", name, got, c.hours, logs.All())
		}
		if aside, err := os.ReadFile(state + ".history.unreadable"); c.lines > 0 && (err != nil || !bytes.Equal(aside, c.text)) {
			t.Errorf("%s: %q is set aside, %v", name, aside, err)
		}
	}
}

// TestHistoryIsOff: nothing is kept, and what was kept goes, but nobody else's file.
func TestHistoryIsOff(t *testing.T) {
	t.Parallel()
	state := filepath.Join(tempDir(t), "state")
	writeFile(t, state+".history.unreadable", string(saveHistory(t, state)))
	p, c, logs := newPast(state, 0)
	p.load()
	forgetHistory(c, zap.NewNop())
	if _, err := os.Lstat(state + ".history"); err == nil || p.reply() != nil || logs.Len() > 0 {
		t.Error("there is a history", logs.All())
	}
	if _, err := os.Lstat(state + ".history.unreadable"); err == nil {
		t.Error("the history that was set aside is still there")
	}
	writeFile(t, state+".history", "precious")
	forgetHistory(c, zap.NewNop())
	if text, err := os.ReadFile(state + ".history"); err != nil || string(text) != "precious" {
		t.Errorf("somebody else's file is %q, %v", text, err)
	}
	memory, c, _ := newPast("", 24)
	memory.load()
	memory.run(context.Background())
	forgetHistory(c, zap.NewNop())
	if memory.reply() == nil {
		t.Error("without a state file there is no history")
	}
}

// TestOldState: that of a release with another form is told, and what is saved then is whole.
func TestOldState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "state")
	writeFile(t, path, `{"note": "ZnJvbSBiZWZvcmU="}`)
	f, n, logs := newState(path, "from before")
	if f.load(); n.text != "from before" || logs.Len() != 1 {
		t.Errorf("it remembers %q, %v", n.text, logs.All())
	}
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !isSaved(text) {
		t.Errorf("it is saved as %q, %v", text, err)
	}
	for i := range text {
		writeFile(t, path, string(text[:i]))
		f, n, logs := newState(path, "")
		if f.load(); n.text != "" || logs.Len() != 1 {
			t.Errorf("%d of %d bytes: it remembers %q, %v", i, len(text), n.text, logs.All())
		}
	}
}

// TestHistoryOfProcesses: what was asked for is told after a replacement, a restart, and
// a crash, and is gone where it is switched off.
func TestHistoryOfProcesses(t *testing.T) {
	t.Parallel()
	url := pageBackend(t)
	state := filepath.Join(tempDir(t), "state")
	yaml := "state: " + state + "\n"
	p := startProxy(t, url, yaml)
	tells := func(want uint64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(want, " requests are told of"), func() (told bool) {
			var reply api.HistoryReply
			p.ask("/v1/history?hours=2", &reply)
			n, keys := uint64(0), uint64(0)
			for _, h := range reply.Hours {
				n += h.Requests
				for _, c := range h.Classes[:min(1, len(h.Classes))] { // an hour that has just begun has none
					for _, k := range c.Keys {
						keys += k.Requests
					}
				}
			}
			return n == want && keys == want
		})
	}
	again := func() {
		p.signal(syscall.SIGTERM)
		p.exit()
		p.process = startProcess(t, nil, program(t, "tempomat-proxy"), "-config", p.file)
		p.serves()
	}
	for range 3 {
		p.get("203.0.113.9", "/page?x=1")
	}
	tells(3)
	p = p.successor()
	tells(3)
	p.get("203.0.113.9", "/page?x=1")
	tells(4)
	again()
	tells(4)
	if err := p.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	again()
	tells(4)
	p.configure(t, url, yaml+"history: {hours: 0}\n")
	again()
	if status := p.ask("/v1/history", nil); status != 404 {
		t.Errorf("status %d of a history that is switched off", status)
	}
	if _, err := os.Lstat(state + ".history"); err == nil {
		t.Error("the file is still there")
	}
}

// TestHistoryIsHandedOverWhole: the process that takes over gets the requests of the last
// moments, too, which nobody had added up yet.
func TestHistoryIsHandedOverWhole(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.State = ""
	old, err := newSidecar(c, source{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer old.logs.output.Close()
	old.statistics.recorders().Note(time.Now(), &telemetry.Record{
		Arrived: time.Now(), Request: httptest.NewRequest(http.MethodGet, "/", nil), Who: new(classify.Result), Cost: time.Second,
	})
	p, _, _ := newPast("", 168)
	if err := old.recall(func(name string, data []byte) error {
		if name == historyKind {
			return p.restore(data)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if hours := p.Reply(168).Hours; len(hours) != 1 || hours[0].Requests != 1 || hours[0].CPU != 1 {
		t.Errorf("got %+v", hours)
	}
}
