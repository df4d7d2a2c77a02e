package config

import (
	"fmt"
	"io"
	"os"
	"strings"

	"tempomat/config/form"
)

// Faults is everything that is wrong with a configuration.
type Faults = form.Faults

// Load reads the file of that name and lays the environment over it; without a name
// all has its default. A file has to have a backend, or the environment: one that is empty,
// or was cut off, is none that was meant. Load opens nothing else but the files of prefixes
// that it names. The error is Faults, or wraps what the system said of the file.
func Load(name string, env []string) (*Config, error) {
	if name == "" {
		return parseWith(nil, "defaults", env, readNetworks)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, form.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return parseWith(data, name, env, func(r *form.Reader, d *draft) {
		readNetworks(r, d)
		_, given := r.Given["backend"]
		if _, long := r.Given["backend.url"]; !given && !long && len(r.Faults) == 0 {
			r.Fault(form.Source{File: name, Key: "backend"}, "",
				"is not given, in the file or as TEMPOMAT_BACKEND; say where requests go, such as "+Default().Backend.URL)
		}
	})
}

// Parse reads one configuration from YAML or JSON. name is the file's name for
// messages; env holds "NAME=value" as os.Environ does and may be nil. What is
// not given has its default. The error is Faults: everything that is wrong. It opens
// nothing: what is in files of prefixes is not in the configuration then. No backend has to be
// given.
func Parse(data []byte, name string, env []string) (*Config, error) {
	return parseWith(data, name, env, func(*form.Reader, *draft) {})
}

// parseWith is Parse; readFiles reads the files that the configuration names.
func parseWith(data []byte, name string, env []string, readFiles func(*form.Reader, *draft)) (*Config, error) {
	r := form.NewReader()
	d := newDraft(Default())
	if top := r.Document(data, name); top != nil {
		r.Mapping(form.Source{File: name}, top, "", settings(d))
	}
	r.RefuseTwice(settings(d))
	r.Environment(env, variables(d), func(s form.Setting) string { return switchedOff(s, d) })
	validate(r, d)
	readFiles(r, d)
	if err := r.Sorted(); err != nil {
		return nil, err
	}
	c := d.config()
	c.Warnings = r.Warnings(settings(d))
	return c, nil
}

// switchedOff says so of a key of a class that is off.
func switchedOff(s form.Setting, d *draft) string {
	for _, c := range d.classes {
		if c.off && strings.HasPrefix(s.Path, classPath(c.Name)+".") {
			return fmt.Sprintf("the class %s is switched off", c.Name)
		}
	}
	return ""
}
