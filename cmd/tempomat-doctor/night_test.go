package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tempomat/proxy/admin/api"
)

// hostile is a text that a client may choose.
const hostile = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e<b>&\r\nx"

// night is an Inspector with waiting requests, some of which have hostile texts.
type night struct{}

func (night) Queue(_ time.Time, limit int) api.QueueReply {
	rows := []api.WaiterRow{
		{Client: "203.0.113.9", Group: "robots", Agent: "gptbot", Method: "GET", Host: "wiki.example", URL: "/index.php?title=X&action=history",
			Shape: "/index.*?title&action", Age: 12.34, Guess: 0.41, Sure: true, Before: 3, Why: "2 of its client's own requests of its size go first"},
		{Client: "2001:db8:1:2::3", Group: "strangers", Agent: hostile, Method: "POST", Host: hostile, URL: "/" + hostile,
			Age: 0.5, Guess: 0.05, Before: 0, Why: "the cost of its page is unknown, and only one such request is tried at a time"},
		{Client: "198.51.100.77", Group: "known", Method: "GET", URL: "/w/" + strings.Repeat("long", 60), Age: 0.1, Guess: 0.02, Sure: true, Before: -1,
			Why: "as many requests of up to 400 ms compute as may: 2 of 2"},
	}
	if limit == 1 {
		return api.QueueReply{Version: api.Version, Rows: []api.WaiterRow{}}
	}
	return api.QueueReply{Version: api.Version, Total: 42, Rows: rows}
}

func (n night) Explain(now time.Time, of string) (api.ExplainReply, error) {
	e := api.ExplainReply{Version: api.Version, Of: of, Kind: "address", Sections: []api.ExplainSection{}, Advice: []string{},
		Waiting: []api.WaiterRow{}, Recent: []api.VerdictRow{}}
	switch of {
	case "":
		return e, errors.New("of: nothing is asked for")
	case "198.51.100.1":
		e.Summary = "Nothing is known about " + of + ": it asked for nothing lately."
		return e, nil
	}
	e.Summary = "3 of its requests are waiting, the first for 12.3 s: 2 of its client's own requests of its size go first; 3 go before it."
	e.Sections = []api.ExplainSection{
		{Title: "Accounts", Facts: []api.ExplainFact{
			{Name: "slash32 203.0.113.9", Value: "owes 4.25 CPU-s, paid in 42.5 s", Means: "Its requests that ended recently used 0.40 CPUs, at 1.5 requests per second. Its share is 0.20 CPUs."},
			{Name: "userAgent " + hostile, Value: "not known", Means: "it was not charged recently: it owes nothing"},
		}},
		{Title: "As a client", Facts: []api.ExplainFact{{Name: "known", Value: "yes"}}},
	}
	e.Advice = []string{"The debt of slash32 203.0.113.9 is paid in 42.5 s if it asks for nothing more; to take it away: tempomat-doctor forgive slash32 203.0.113.9."}
	e.Waiting = n.Queue(now, 100).Rows[:2]
	e.Recent = []api.VerdictRow{{At: 1_000_000, ID: "5f0c9a1e", Client: of, Method: "GET", URL: "/" + hostile, Status: 429, Outcome: "refused", Reason: "debt",
		Class: "slash32", Key: of, Waited: 30}}
	return e, nil
}

func (night) Forgive(_ time.Time, _ string, a api.ActRequest) (api.ActReply, error) {
	return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s owes nothing now; it owed 4.25 CPU-s.", a.Class, a.Key)}, nil
}

func (night) Pin(_ time.Time, _ string, a api.ActRequest) (api.ActReply, error) {
	if a.Standing > 8 {
		return api.ActReply{}, errors.New("standing: 9; it must be 0.5 to 8, or 0 to remove a pin")
	}
	return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s: standing %g for %g s.", a.Class, a.Key, a.Standing, a.Seconds)}, nil
}

func (night) Pins(time.Time) api.PinsReply {
	return api.PinsReply{Version: api.Version, Pins: []api.PinRow{
		{Class: "slash32", Key: "203.0.113.9", Standing: 8, Left: 3599}, {Class: "userAgent", Key: hostile, Standing: 0.5, Left: 1},
	}}
}

// TestActsThatAreNotAllowed: the doctor prints why an action isn't allowed, and its exit status isn't 0.
func TestActsThatAreNotAllowed(t *testing.T) {
	path := serveAdmin(t, nil)
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"standing: 9; it must be 0.5 to 8":                                 {1, []string{"pin", "slash32", "192.0.2.1", "--standing", "9"}},
		"--standing: 0 is not allowed; use 0.5 to 8":                       {1, []string{"pin", "slash32", "192.0.2.1", "--standing", "0"}},
		"--off removes a pin":                                              {1, []string{"pin", "slash32", "192.0.2.1", "--off", "--for", "1h"}},
		"an argument is missing. Usage: tempomat-doctor forgive CLASS KEY": {2, []string{"forgive", "slash32"}},
		"of: nothing is asked for":                                         {1, []string{"explain", ""}},
		`--for: "soon" is not a duration, such as 90s or 1h`:               {2, []string{"pin", "slash32", "192.0.2.1", "--for", "soon"}},
	} {
		fails(t, nil, c.code, says, append(c.args, "--socket", path)...)
	}
}
