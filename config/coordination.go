package config

import "tempomat/config/form"

// SharesNothing is the kind of Coordination of a sidecar that works alone.
const SharesNothing = "none"

// Coordination names whom the sidecar shares its accounts with.
type Coordination struct {
	Kind     string // SharesNothing, or one of ways
	Smockron Smockron
	Redis    Redis // of kind redis, and for strict limits
	Gossip   Gossip
}

func defaultCoordination() Coordination {
	return Coordination{Kind: SharesNothing, Smockron: defaultSmockron(), Redis: defaultRedis(), Gossip: defaultGossip()}
}

// way is a way of sharing accounts: a value of coordination.kind, and the section of that
// name.
type way struct {
	name     string
	title    string // of its chapter in the reference
	keys     []form.Setting
	validate func(*form.Reader, *draft) // checks what it needs, if it is the kind; nil: nothing
}

// ways are the ways of sharing, in the order of the reference. A new one is a file like
// gossip.go, a field of Coordination, and a line here.
func ways(c *Coordination) []way {
	return []way{
		{"smockron", "Sharing through tempomat-master", smockronSettings(&c.Smockron), validateSmockron},
		{"redis", "Redis", redisSettings(&c.Redis), nil}, // validateRedis, as strict limits need it, too
		{"gossip", "Sharing with no server", gossipSettings(&c.Gossip), validateGossip},
	}
}

func coordinationSettings(c *Coordination) []form.Setting {
	kinds := []string{SharesNothing}
	for _, w := range ways(c) {
		kinds = append(kinds, w.name)
	}
	return []form.Setting{
		{Path: "coordination.kind", Value: form.Choice(kinds...).In(&c.Kind), Restart: true,
			Doc: "Whom accounts are shared with; see [coordination](coordination.md)."},
	}
}

func validateCoordination(r *form.Reader, d *draft) {
	for _, w := range ways(&d.Coordination) {
		if w.name == d.Coordination.Kind && w.validate != nil {
			w.validate(r, d)
		}
	}
}
