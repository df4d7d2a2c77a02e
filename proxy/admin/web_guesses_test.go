package admin

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestWebBoundsGuesses(t *testing.T) {
	d := openListeners(t)
	guess := func(token string) int {
		resp, _ := d.say("tcp", request("GET /v1/status", d.tcp, "", "Authorization: Bearer "+token))
		if resp.StatusCode == 429 && resp.Header.Get("Retry-After") != "6" {
			t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
		}
		return resp.StatusCode
	}
	var got []int
	for i := range 40 { // more than could be earned back meanwhile
		got = append(got, guess(fmt.Sprint("guess", i)))
	}
	if n := slices.Index(got, 429); n < attemptsAtOnce || !slices.Contains(got[:n], 401) {
		t.Errorf("answers to wrong tokens: %v", got)
	}
	if resp, body := d.say("unix", request("GET /v1/status", "tempomat", "")); resp.StatusCode != 200 {
		t.Errorf("the socket: %s %s", resp.Status, body)
	}
}

func TestAttemptsAreEarnedBackAndBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var a attempts
	one, same, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8:0:1::1")
	for range attemptsAtOnce {
		if !a.allows(now, one) {
			t.Fatal("refused too early")
		}
		a.failed(now, one)
	}
	if a.allows(now, one) || a.allows(now, same) || !a.allows(now, other) {
		t.Error("a host's network counts as one, and for itself")
	}
	if now = now.Add(attemptEvery); !a.allows(now, same) {
		t.Error("nothing was earned back")
	}
	for i := range 3 * mostGuessers {
		a.failed(now, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(a.from) > mostGuessers+1 {
		t.Errorf("%d addresses are remembered", len(a.from))
	}
	if fresh := netip.MustParseAddr("192.0.2.1"); a.allows(now, fresh) {
		t.Error("among too many, those that are not remembered count as one")
	} else if now = now.Add(time.Hour); !a.allows(now, fresh) || len(a.from) > 1 {
		t.Errorf("%d are remembered an hour later", len(a.from))
	}
}

// TestWebGuessesKeepNoViewerOut: who guesses tokens from the address that a viewer has, as
// all have on one machine, takes nothing from the viewer.
func TestWebGuessesKeepNoViewerOut(t *testing.T) {
	d := openListeners(t)
	viewer := d.dial("tcp")
	defer viewer.Close()
	ask := func(token string) int {
		resp, err := visit(t, viewer, request("GET /v1/status", d.tcp, "", "Authorization: Bearer "+token))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if got := ask(testToken); got != 200 {
		t.Fatal(got)
	}
	for range 4 * attemptsAtOnce {
		d.say("tcp", request("GET /v1/status", d.tcp, "", "Authorization: Bearer wrong"))
	}
	for _, want := range []struct {
		token  string
		status int
	}{{testToken, 200}, {"wrong", 401}} {
		if got := ask(want.token); got != want.status {
			t.Errorf("%s: %d, want %d", want.token, got, want.status)
		}
	}
}
