package config

import (
	"errors"
	"path"
	"strings"
)

// usage is whose CPU use is measured.
func usage(p *string) scalar {
	return scalar{
		set: func(text string) error {
			switch {
			case strings.EqualFold(text, "machine"), strings.EqualFold(text, "off"):
				*p = strings.ToLower(text)
			case path.IsAbs(text):
				*p = path.Clean(text)
			default:
				return errors.New("must be machine, off, or the absolute path of the backend's cgroup, such as /sys/fs/cgroup/system.slice/apache2.service")
			}
			return nil
		},
		get: func() string { return *p },
	}
}

// factor is by how much something multiplies a share.
func factor(p *float64) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x < 1 || x > 8 {
				return errors.New("must be a number from 1 to 8")
			}
			*p = x
			return nil
		},
		get: func() string { return number(*p) },
	}
}

// stateFile is the path of the file of known clients.
func stateFile(p *string) scalar {
	return scalar{
		set: func(text string) error {
			switch {
			case strings.EqualFold(text, "off"):
				*p = ""
			case path.IsAbs(text) && path.Clean(text) != "/":
				*p = path.Clean(text)
			default:
				return errors.New("must be the absolute path of a file, or off")
			}
			return nil
		},
		get: func() string {
			if *p == "" {
				return "off"
			}
			return *p
		},
	}
}
