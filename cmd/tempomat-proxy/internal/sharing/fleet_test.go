package sharing

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/limiter/known"
	"tempomat/proxy/admin/api"
)

// TestDrift: instances with the same secret know each other. Each logs a difference that has lasted for a while, and
// its end. A silent instance is remembered.
func TestDrift(t *testing.T) {
	file := t.TempDir() + "/secret"
	now := time.Now()
	testkit.Must(t, MakeSecret(file, now.Add(-time.Hour), new(bytes.Buffer)))
	c := config.Default()
	c.Coordination.Secret = file
	core, logs := observer.New(zap.InfoLevel)
	instances := make([]*Sharing, 3)
	selves := make([]api.Instance, 3)
	for n := range instances {
		s, err := New(c, zap.New(core))
		testkit.Must(t, err)
		signing, other := s.secret.at(now)
		s.exchange.SetKeys(derive(signing, packets), derive(other, packets))
		instances[n], selves[n] = s, api.Instance{Name: fmt.Sprint("web", n), Admin: fmt.Sprintf("http://10.0.0.%d", n), Mode: "fair", Classes: map[string]string{"slash32": "share 0.1"}}
	}
	step := func(silent int, ahead float64) {
		now = now.Add(introduceEvery)
		for n, s := range instances {
			if selves[n].Now = float64(now.UnixMilli()) / 1000; n == 2 {
				selves[n].Now += ahead
			}
			packet := s.exchange.Introduce(now, introduction(selves[n]))
			for _, to := range instances {
				if n != silent {
					to.exchange.Learn(now, packet)
				}
			}
		}
		for n, s := range instances {
			s.compare(now, selves[n])
		}
	}
	said := func() (all string) {
		for _, line := range logs.TakeAll() {
			all += line.Message + "\n"
		}
		return all
	}
	selves[1].Classes = map[string]string{"slash32": "share 0.2"}
	for range stands {
		step(-1, 0)
	}
	testkit.Same(t, "", said(), "told at once")
	step(-1, 0)
	const classes = "Instances differ in the class slash32: web1: share 0.2; web0, web2: share 0.1. Configure the same"
	if text := said(); strings.Count(text, "\n") != 3 || strings.Count(text, classes) != 3 {
		t.Errorf("log: %s", text)
	}
	for range stands {
		step(-1, 60.4)
	}
	if text := said(); !strings.Contains(text, "clocks: web2 is 60 s ahead") || strings.Contains(text, "slash32") || strings.Count(text, "\n") != 2 {
		t.Errorf("log: %s", text)
	}
	testkit.Same(t, 2, instances[0].Numbers().Drift, "differences")
	for range stands + 3 { // web1 becomes silent, and a clock is set
		step(1, 0)
	}
	if text := said(); !strings.Contains(text, "no longer differ") {
		t.Errorf("log: %s", text)
	}
	if all := instances[0].fleet.others(now, false); len(all) != 2 || all[0].Name != "web1" || all[0].Admin != "http://10.0.0.1" {
		t.Errorf("others: %+v", all)
	}
}

// TestIntroductionHasRoom: if there are too many classes for a packet, a fingerprint replaces them.
func TestIntroductionHasRoom(t *testing.T) {
	i := api.Instance{Name: "web", Classes: map[string]string{}}
	for n := range 40 {
		i.Classes[fmt.Sprint("class", n)] = "share 0.1, burst 30s"
	}
	if text := introduction(i); len(text) > known.MostText || !strings.Contains(string(text), "40 classes") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// TestWhatWasSaidBefore: a replayed old introduction changes nothing, and its instance doesn't count as
// running.
func TestWhatWasSaidBefore(t *testing.T) {
	f := fleet{all: make(map[uint32]*member)}
	begin := time.Unix(1_800_000_000, 0)
	said := func(at time.Duration, admin string) []byte {
		return introduction(api.Instance{Name: "web1", Admin: admin, Now: float64(begin.Add(at).Unix())})
	}
	before, latest := said(0, "http://192.0.2.1:8880"), said(introduceEvery, "http://192.0.2.2:8880")
	f.meet(begin, 1, before)
	f.meet(begin.Add(introduceEvery), 1, latest)
	for _, text := range [][]byte{before, latest} {
		f.meet(begin.Add(10*time.Minute), 1, text)
		if live := f.others(begin.Add(10*time.Minute), true); len(live) != 0 {
			t.Errorf("it is there: %+v", live)
		}
	}
	if all := f.others(begin.Add(10*time.Minute), false); len(all) != 1 || all[0].Admin != "http://192.0.2.2:8880" || all[0].Ahead != 0 {
		t.Errorf("%+v", all)
	}
}
