package sim

import (
	"slices"
	"testing"

	"tempomat/limiter"
)

// TestBuffering checks, without a gate, that slow clients hold no workers if the proxy reads bodies ahead and
// spools answers, and hold all workers if it doesn't.
func TestBuffering(t *testing.T) {
	for _, s := range HoldingWorkers() {
		if s.Name != "upload-1x24" && s.Name != "upload-24x1" && s.Name != "read-1x24" && s.Name != "read-8MB-24x1" {
			continue
		}
		if r := play(t, s, limiter.Observe, "human")["human"]; !(r.good >= 0.99) {
			t.Errorf("%s: people good %.1f%%", s.Name, 100*r.good)
		}
		s.Plain = true
		if r := play(t, s, limiter.Observe, "human")["human"]; !(r.good < 0.5) {
			t.Errorf("%s without buffering isn't an attack: %.1f%% of people's requests are answered within a second", s.Name, 100*r.good)
		}
	}
}

// TestReadingForAnHour makes a client read images at 64 B/s, which takes more than an hour.
func TestReadingForAnHour(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := besides("hour", nil)
		s.Plain = plain
		w := newWorld(t, 1, s, limiter.Fair)
		held := 0
		w.every(1, func() {
			if w.now > Attack+1 {
				held = max(held, w.backend.busy())
			}
		})
		w.Run(holders(addresses{1, 0}, 24, image(), crawling), 0, 3600)
		if kept := w.proxy.spool.used[0x20000001]; plain {
			if held == 0 || kept > 0 {
				t.Errorf("this tests nothing: without a spool, %d workers held, %.0f bytes kept", held, kept)
			}
		} else if held > 0 || kept != 24*image().Answer {
			t.Errorf("%d workers held, %.0f bytes kept after an hour; want none, and 24 images", held, kept)
		}
	}
}

// TestGateCountsAll checks that the gate knows all requests at the backend while they are there, and none after
// all clients have disconnected or been served.
func TestGateCountsAll(t *testing.T) {
	all := slices.DeleteFunc(demanding(), func(s Scenario) bool { return s.Cold }) // cold scenarios have the same clients
	parallel(len(all), func(i int) {
		s := all[i]
		if unseen := playToTheEnd(t, s); unseen > 0 {
			t.Errorf("%s: the gate doesn't know %d requests at the backend", s.Name, unseen)
		}
		if s.Plain = true; s.Name == "hangup-4/s-30ms" {
			if unseen := playToTheEnd(t, s); unseen == 0 {
				t.Errorf("%s: this tests nothing: a gate that forgets requests of disconnected clients forgets none", s.Name)
			}
		}
	})
}

// playToTheEnd makes clients visit the site for a while, until all have ended. It returns the largest number of
// requests at the backend that the gate didn't know.
func playToTheEnd(t *testing.T, s Scenario) (unseen int) {
	t.Helper()
	w, err := NewWorld(1, s, limiter.Fair)
	if err != nil {
		t.Error(err)
		return 0
	}
	clients := s.Clients()
	for _, c := range clients {
		c.To = Attack + 10
		if c.HangsUp == 0 {
			c.HangsUp = 30
		}
	}
	p := w.proxy
	w.every(0.1, func() {
		unseen = max(unseen, w.backend.busy()+len(w.backend.queue)-p.limiter.GateState().Busy)
	})
	w.Run(clients, 0, Attack+400)
	g := p.limiter.GateState()
	if w.backend.busy()+len(w.backend.queue)+len(p.running)+len(p.waiting)+g.Busy+g.Queued+p.rules.Meter.Running() > 0 {
		t.Errorf("%s: at the end, %d hold workers, %d wait for a worker, %d run, %d wait, %d are metered, gate %+v", s.Name,
			w.backend.busy(), len(w.backend.queue), len(p.running), len(p.waiting), p.rules.Meter.Running(), g)
	}
	for address, n := range p.spool.used {
		if n != 0 {
			t.Errorf("%s: %.0f bytes are still spooled for %x", s.Name, n, address)
		}
	}
	return unseen
}

func demanding() (all []Scenario) {
	for _, group := range [][]Scenario{HoldingWorkers(), HangUps(), Polls(), UnsetWorkers()} {
		all = append(all, group...)
	}
	return all
}
