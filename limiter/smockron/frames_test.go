package smockron

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/known"
)

func charge(id string, e limiter.Event, received, until int64) limiter.Charge {
	return limiter.Charge{
		Key: limiter.Key{Class: "c", ID: id}, Event: e,
		At: time.UnixMilli(received), Received: time.UnixMilli(received), Until: time.UnixMilli(until),
	}
}

func TestCost(t *testing.T) {
	for _, cost := range []time.Duration{0, time.Microsecond, 412 * time.Millisecond, 1500500 * time.Microsecond, 3 * time.Hour} {
		text := appendCost(nil, cost)
		if got, ok := parseCost(text); !ok || got != cost {
			t.Errorf("%v became %q, and %v %v", cost, text, got, ok)
		}
	}
	for text, want := range map[string]time.Duration{
		"cost_ms=5": 5 * time.Millisecond, "ua=curl cost_ms=0.5 x": 500 * time.Microsecond, "cost_ms=1 cost_ms=2": time.Millisecond,
		"": -1, "412": -1, "cost_ms=": -1, "cost_ms=-5": -1, "cost_ms=1e3": -1, "cost_ms=NaN": -1, "cost_ms=0x5": -1,
		"cost_ms=99999999999999": -1, "xcost_ms=5": -1, "cost_ms=1.2.3": -1, "cost_ms=.": -1,
	} {
		got, ok := parseCost([]byte(text))
		if !ok {
			got = -1
		}
		testkit.Same(t, want, got, "%q", text)
	}
}

// parts splits a text into frames at each |.
func parts(text string) [][]byte { return bytes.Split([]byte(text), []byte("|")) }

// TestFrames reads valid and malformed messages of both kinds.
func TestFrames(t *testing.T) {
	const ts = "1795210055000"
	account := func(frames [][]byte) error { _, err := ParseAccounting(frames); return err }
	control := func(frames [][]byte) error { _, err := parseControl(frames); return err }
	for _, c := range []struct {
		parse  func([][]byte) error
		frames string
		want   error
	}{
		{account, "foo\x00|ACCEPTED|u1|" + ts + "||", nil},
		{account, "foo\x00|ACCEPTED|u1|" + ts + "|", nil}, // five frames
		{account, "foo\x00|ACCEPTED|u1|" + ts + "|||more|and more", nil},
		{account, "foo|ACCEPTED|u1|" + ts + "||", nil},
		{account, "foo\x00|ACCEPTED||" + ts + "||", nil},
		{account, "foo\x00|ACCEPTED|\xff\xfe;\x00é|" + ts + "||", nil},
		{account, "foo\x00|ACCEPTED|u1|" + ts + "|no time, but who cares|", nil},
		{account, "foo\x00|DELAYED|u1|" + ts + "|" + ts + "|", nil},
		{account, "foo\x00|REJECTED|u1|" + ts + "||", nil},
		{account, "constructor\x00|ACCEPTED|__proto__|" + ts + "||", nil},
		{account, "foo\x00|RESYNC", nil},
		{account, "foo|RESYNC|x|y", nil},
		{account, "", errShort},
		{account, "foo\x00", errShort},
		{account, "foo\x00|ACCEPTED", errShort},
		{account, "foo\x00|ACCEPTED|u1|" + ts, errShort},
		{account, "foo\x00|PACKET|sealed", errShort},
		{account, "foo\x00|PACKET|sealed|" + ts + "|", errStatus},
		{account, "tempomat packets\x00|PACKET", errShort},
		{account, "tempomat packets\x00|PACKET|", errShort},
		{account, "tempomat packets\x00|ACCEPTED|u1|" + ts + "||", errCommand},
		{account, "tempomat packets\x00|PACKET|" + strings.Repeat("x", known.MostPacket+1), errIdentifier},
		{account, "\x00|ACCEPTED|u1|" + ts + "||", errDomain},
		{account, "|ACCEPTED|u1|" + ts + "||", errDomain},
		{account, "foo\x00\x00|ACCEPTED|u1|" + ts + "||", errDomain},
		{account, "foo\x00bar|ACCEPTED|u1|" + ts + "||", errDomain},
		{account, "foo\x00|accepted|u1|" + ts + "||", errStatus},
		{account, "foo\x00||u1|" + ts + "||", errStatus},
		{account, "foo\x00|WHATEVER|u1|" + ts + "||", errStatus},
		{account, "foo\x00|DELAYED|u1|" + ts + "||", errTime},
		{account, "foo\x00|DELAYED|u1|" + ts + "|soon|", errTime},
		{account, "foo\x00|ACCEPTED|u1|||", errTime},
		{account, "foo\x00|ACCEPTED|u1|abc||", errTime},
		{account, "foo\x00|ACCEPTED|u1|123abc||", errTime},
		{account, "foo\x00|ACCEPTED|u1|0x10||", errTime},
		{account, "foo\x00|ACCEPTED|u1|1e3||", errTime},
		{account, "foo\x00|ACCEPTED|u1|-5||", errTime},
		{account, "foo\x00|ACCEPTED|u1|Infinity||", errTime},
		{account, "foo\x00|ACCEPTED|u1|" + ts + ".75||", errTime},
		{account, "foo\x00|ACCEPTED|u1|9999999999999999||", errTime},
		{account, "foo\x00|ACCEPTED|" + strings.Repeat("x", MaxIdentifier+1) + "|" + ts + "||", errIdentifier},
		{control, "foo\x00|DELAY_UNTIL|u1|" + ts, nil},
		{control, "foo\x00|DELAY_UNTIL||" + ts, nil},
		{control, "foo\x00|DELAY_UNTIL|u1|" + ts + "|more|and more", nil},
		{control, "foo\x00|RESYNCSTART", nil},
		{control, "foo\x00|RESYNCDONE", nil},
		{control, "foo\x00", errShort},
		{control, "foo\x00|DELAY_UNTIL", errShort},
		{control, "foo\x00|DELAY_UNTIL|u1", errShort},
		{control, "foo\x00|delay_until|u1|" + ts, errCommand},
		{control, "foo\x00|FORGET|u1|" + ts, errCommand},
		{control, "foo\x00|DELAY_UNTIL|u1|", errTime},
		{control, "foo\x00|DELAY_UNTIL|u1|abc", errTime},
		{control, "foo\x00|DELAY_UNTIL|u1|" + ts + ".75", errTime},
		{control, "foo\x00bar|DELAY_UNTIL|u1|" + ts, errDomain},
		{control, "foo\x00|DELAY_UNTIL|" + strings.Repeat("x", MaxIdentifier+1) + "|" + ts, errIdentifier},
	} {
		if err := c.parse(parts(c.frames)); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.frames, err, c.want)
		}
	}
	if _, err := ParseAccounting(nil); !errors.Is(err, errShort) {
		t.Errorf("no frames: %v", err)
	}
}

// FuzzFrames checks that whatever the frames are, the parsed message is valid, and doesn't change when it is
// sent again.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("foo\x00|ACCEPTED|u1|1795210055000||cost_ms=5"))
	f.Add([]byte("foo|DELAYED|u1|1795210055000|1795210056000|"))
	f.Add([]byte("foo\x00|DELAY_UNTIL|u1|1795210055000"))
	f.Add([]byte("foo\x00|DELAY_UNTIL||0")) // without an identifier, the sent frame is empty, and the received one is nil
	f.Add([]byte("foo\x00|RESYNC"))
	f.Add([]byte("tempomat packets\x00|PACKET|sealed"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frames := bytes.Split(text, []byte("|"))
		if a, err := ParseAccounting(frames); err == nil && a.Packet != nil {
			var m message
			if again, err := ParseAccounting(m.packet(a.Packet)); err != nil || string(again.Packet) != string(a.Packet) {
				t.Fatalf("%q became %q, %v", frames, again.Packet, err)
			}
		} else if err == nil && !a.Resync {
			if a.Received < 0 || a.Until < 0 || a.Cost < 0 || a.Cost > maxCost || len(a.Identifier) > MaxIdentifier || len(a.Domain) == 0 {
				t.Fatalf("%q became %+v", frames, a)
			}
			var m message
			statuses := map[limiter.Event]string{limiter.Accepted: accepted, limiter.Delayed: delayed, limiter.Rejected: rejected}
			status, cost := statuses[a.Event], time.Duration(-1)
			if a.HasCost {
				cost = a.Cost
			}
			sent := m.accounting(string(a.Domain), charge(string(a.Identifier), a.Event, a.Received, a.Until), status, cost)
			b, err := ParseAccounting(sent)
			a.Cost = a.Cost.Truncate(time.Microsecond)
			if diff := cmp.Diff(a, b, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("%q: %v, -sent +received:\n%s", frames, err, diff)
			}
		}
		if c, err := parseControl(frames); err == nil && c.command == delayUntil {
			var m message
			sent := m.delayUntil(string(c.domain), string(c.identifier), c.until)
			b, err := parseControl(sent)
			if diff := cmp.Diff(c, b, cmp.AllowUnexported(control{}), cmpopts.EquateEmpty()); err != nil || diff != "" || len(sent) != 4 {
				t.Fatalf("%q: %v, -sent +received:\n%s", frames, err, diff)
			}
		}
	})
}
