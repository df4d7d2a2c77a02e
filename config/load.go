package config

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the largest configuration that is read, in bytes.
const maxFile = 1 << 20

// Load reads the file of that name and lays the environment over it. It opens
// nothing else. The error is Faults, or wraps what the system said of the file.
func Load(name string, env []string) (*Config, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(data, name, env)
}

// Parse reads one configuration from YAML or JSON. name is the file's name for
// messages; env holds "NAME=value" as os.Environ does and may be nil. What is
// not given has its default. The error is Faults: everything that is wrong.
func Parse(data []byte, name string, env []string) (*Config, error) {
	r := &reader{given: make(map[string]source)}
	d := newDraft(Default())
	if top := r.document(data, name); top != nil {
		r.mapping(source{file: name}, top, "", settings(d))
	}
	r.refuseTwice(settings(d))
	r.environment(env, d)
	r.validate(d)
	if len(r.faults) > 0 {
		r.faults.sort()
		return nil, r.faults
	}
	c := d.config()
	c.Warnings = r.warnings(settings(d))
	return c, nil
}
