package config

import (
	"slices"
	"time"

	"tempomat/classify/class"
	"tempomat/config/form"
)

// draft is a configuration under construction. Its settings point into it.
type draft struct {
	Config
	classes    []*draftClass // pointers, as settings point at them while the list grows
	hashMaxLen int           // the original's key; 0: not given

	limitSources []form.Source // of each of Limits, where the file gives it
	light        time.Duration
}

func newDraft(c *Config) *draft {
	d := &draft{Config: *c}
	for _, k := range class.Kinds() {
		d.classes = append(d.classes, newBuiltIn(k))
	}
	for _, c := range c.Classes {
		if known := d.class(c.Name); known != nil {
			*known = draftClass{Class: c, kind: known.kind, own: c.Header != "" || c.Path}
		} else {
			d.classes = append(d.classes, &draftClass{Class: c, own: true})
		}
	}
	return d
}

// config is the finished configuration: its classes are those that are on.
func (d *draft) config() *Config {
	c := d.Config
	c.Classes = nil
	for _, class := range d.classes {
		if !class.off {
			c.Classes = append(c.Classes, class.Class)
		}
	}
	return &c
}

// chapter is one of the reference: keys that belong together.
type chapter struct {
	title string
	keys  []form.Setting
}

// chapters are all keys at fixed paths, in the order of the reference. A new group of
// keys is one more line.
func chapters(d *draft) []chapter {
	all := []chapter{
		{"Where requests come from and go", trafficSettings(&d.Traffic)},
		{"TLS", tlsSettings(&d.TLS)},
		{"How debt is acted on", throttleSettings(&d.Throttle)},
		{"The gate", gateSettings(d)},
		{"Classes and exemptions", classesSettings(d)},
		{"Robots", robotsSettings(&d.Robots)},
		{"Sites", sitesSettings(&d.Sites)},
		{"Limits in requests", limitsSettings(d)},
		{"Cost, memory, timeouts", costSettings(&d.Config)},
		{"Buffers", bufferSettings(&d.Buffer)},
		{"Sharing with other sidecars", coordinationSettings(&d.Coordination)},
	}
	for _, w := range ways(&d.Coordination) {
		all = append(all, chapter{w.title, w.keys})
	}
	return append(all, []chapter{
		{"Admin interface", adminSettings(&d.Admin)},
		{"Statistics and logs", statisticsSettings(&d.Statistics)},
		{"What the proxy itself answers", answerSettings(&d.Answers)},
		{"Keys of the original", legacySettings(d)},
	}...)
}

// settings are the keys of all chapters.
func settings(d *draft) (table []form.Setting) {
	for _, c := range chapters(d) {
		table = append(table, c.keys...)
	}
	return table
}

// canonical are the settings that each say something of their own: no second
// forms, none without effect, and not the classes, which are a list.
func canonical(d *draft) []form.Setting {
	return slices.DeleteFunc(form.Own(settings(d)), func(s form.Setting) bool { return s.Path == "classes" })
}

// variables are the settings that the environment can give, and those of which it says
// why it cannot: the keys at fixed paths, and those of the classes that there are.
func variables(d *draft) []form.Setting {
	table := settings(d)
	for _, c := range d.classes {
		if !c.isAbsent() {
			table = append(table, classSettings(c)...)
		}
	}
	return table
}
