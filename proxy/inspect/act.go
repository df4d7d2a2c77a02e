package inspect

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// longestKey is how many bytes the ID of a key has at most.
const longestKey = 256

// key is the one that an action is for: what nobody has as a key would do nothing, and say
// that it did.
func (i *Inspector) key(a *api.ActRequest) (limiter.Key, error) {
	k := limiter.Key{Class: a.Class, ID: a.Key}
	if len(a.Key) > longestKey {
		return k, fmt.Errorf("key: it has %d bytes; at most %d are allowed", len(a.Key), longestKey)
	}
	for _, c := range i.Ledger.Classes() {
		if c.Name == a.Class {
			return i.Requests.Policy().Classifier.KeyOf(a.Class, a.Key)
		}
	}
	var known []string
	for _, c := range i.Ledger.Classes() {
		known = append(known, c.Name)
	}
	return k, fmt.Errorf("class: %q is unknown; known: %s", a.Class, strings.Join(known, ", "))
}

// Forgive sets the debt of a key to none. By is who asked for it, for the log.
func (i *Inspector) Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	if a.Seconds != 0 || a.Standing != 0 {
		return api.ActReply{}, fmt.Errorf("seconds and standing are for pins; forgive takes class and key only")
	}
	debt, known := i.Forgiver.Forgive(now, k)
	if !known {
		return api.ActReply{}, fmt.Errorf("class %s has no key %q: it was not charged lately, and owes nothing", k.Class, k.ID)
	}
	i.Log.Info("forgave a debt", zap.String("class", k.Class), zap.String("key", k.ID), zap.Float64("cpu_s", debt), zap.String("by", by))
	done := fmt.Sprintf("%s %s owes nothing now; it owed %s. Other sidecars are not told: what they know of its debt they have paid off as usual.",
		k.Class, k.ID, cpuSeconds(debt))
	if debt == 0 {
		done = fmt.Sprintf("%s %s owed nothing; it is no longer ahead of its share.", k.Class, k.ID)
	}
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pin gives the clients with a key a standing for a time, or takes that back. By is who
// asked for it, for the log.
func (i *Inspector) Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	d := classify.LongestPin + 1 // more is refused as that is
	if a.Seconds >= 0 && a.Seconds <= classify.LongestPin.Seconds() {
		d = time.Duration(a.Seconds * float64(time.Second))
	}
	if err := i.Pinned.Set(now, classify.Pin{Key: k, Standing: a.Standing, Until: now.Add(d)}); err != nil {
		return api.ActReply{}, err
	}
	done, log := fmt.Sprintf("%s %s has a standing of %g for %s.", k.Class, k.ID, a.Standing, span(a.Seconds)), "pinned a standing"
	if a.Standing == 0 {
		done, log = fmt.Sprintf("%s %s is no longer pinned.", k.Class, k.ID), "took a pin back"
	}
	i.Log.Info(log, zap.String("class", k.Class), zap.String("key", k.ID),
		zap.Float64("standing", a.Standing), zap.Float64("seconds", a.Seconds), zap.String("by", by))
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pins are those in force.
func (i *Inspector) Pins(now time.Time) api.PinsReply {
	reply := api.PinsReply{Version: api.Version, Pins: []api.PinRow{}}
	for _, p := range i.Pinned.All(now) {
		reply.Pins = append(reply.Pins, api.PinRow{Class: p.Key.Class, Key: p.Key.ID, Standing: p.Standing, Left: p.Until.Sub(now).Seconds()})
	}
	return reply
}
