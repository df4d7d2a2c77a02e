package config

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
	"tempomat/internal/testkit"
)

// TestShippedMasterFile: the file shows every key with its default. Its domains are those that an instance with the
// shipped configuration shares, and an address may use as much of all instances as of one instance with 4 CPUs.
func TestShippedMasterFile(t *testing.T) {
	const file = "../deploy/master.yaml"
	m, err := LoadMaster(file)
	testkit.Must(t, err)
	c, err := Load("../deploy/tempomat.yaml", nil)
	testkit.Must(t, err)
	want := DefaultMaster()
	want.Domains = domainsOf(c, 4)
	testkit.Same(t, want, m, "%s", file)
	data := testkit.ReadFile(t, file)
	for _, s := range form.Own(masterSettings(DefaultMaster())) {
		if key := s.Path[strings.LastIndexByte(s.Path, '.')+1:]; !strings.Contains(data, key+":") {
			t.Errorf("%s doesn't show %s", file, s.Path)
		}
	}
}

// domainsOf returns the domains that a master needs for an instance's classes, with the limits of an instance that
// has the given number of CPUs.
func domainsOf(c *Config, cpus float64) (all []MasterDomain) {
	for _, class := range c.Classes {
		all = append(all, MasterDomain{c.Coordination.Smockron.Site + "." + class.Name, []MasterRule{{
			Rule: "credit", CPUs: cpus * class.Share, Burst: class.Burst, Memory: c.Throttle.Memory,
		}}})
	}
	return all
}

const composeDir = "../deploy/compose"

// TestCompose: three proxies, each in front of its own PHP, share limits through a Redis and a master. The master has
// a rule for each class, with the same limits as a proxy. All files that compose.yaml names exist.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Image          string
			Command        []string
			Environment    map[string]string
			Volumes, Ports []string
			DependsOn      []string `yaml:"depends_on"`
		}
	}
	testkit.Must(t, yaml.Unmarshal([]byte(testkit.ReadFile(t, composeDir+"/compose.yaml")), &c))
	files := make(map[string]string) // of the services that run a program of this module
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			path := filepath.Join(composeDir, parts[0])
			_, err := os.Stat(path)
			testkit.Must(t, err)
			if s.Image == "tempomat" && parts[1] == s.Command[len(s.Command)-1] {
				files[name] = path
			}
		}
		for _, other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which doesn't exist", name, other)
			}
		}
	}
	isOf := func(address, image string) bool {
		u, err := url.Parse(address)
		return err == nil && strings.HasPrefix(c.Services[u.Hostname()].Image, image)
	}
	master, err := LoadMaster(files["master"])
	testkit.Must(t, err)
	backends := make(map[string]bool)
	for _, name := range []string{"sidecar1", "sidecar2", "sidecar3"} {
		s := c.Services[name]
		car, err := Load(files[name], []string{"TEMPOMAT_BACKEND_URL=" + s.Environment["TEMPOMAT_BACKEND_URL"]})
		testkit.Must(t, err)
		backends[car.Backend.URL] = true
		if !isOf(car.Backend.URL, "php:") || len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], ":8888") || car.Listen[0].Address != ":8888" {
			t.Errorf("%s is in front of %s, listens on %v and publishes %v", name, car.Backend.URL, car.Listen, s.Ports)
		}
		if m := car.Coordination.Smockron.Masters; car.Coordination.Kind != "smockron" || len(m) != 1 || m[0].Control != "tcp://master:10005" {
			t.Errorf("the proxies share by %+v", car.Coordination)
		}
		testkit.Same(t, domainsOf(car, car.CPUCount), master.Domains, "the master's domains, for the classes of %s", name)
	}
	if len(backends) != 3 || !isOf(master.Store, "redis:") {
		t.Errorf("the backends are %v, want three; the master's store is %s", backends, master.Store)
	}
}

// TestDockerfile: the image is built with the Go version in go.mod, and runs on the Debian release on which it
// was built.
func TestDockerfile(t *testing.T) {
	data := testkit.ReadFile(t, composeDir+"/Dockerfile")
	mod := testkit.ReadFile(t, "../go.mod")
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mod)
	from := regexp.MustCompile(`(?m)^FROM golang:(\S+)-(\w+) AS build$[\s\S]*^FROM debian:(\w+)-slim$`).FindStringSubmatch(data)
	if goes == nil || from == nil || from[1] != goes[1] || from[2] != from[3] {
		t.Errorf("go.mod has %q, the Dockerfile %q", goes, from)
	}
}

// TestPackagesAreTriedWithPresentKeys: each line that the packages' test adds to the configuration is valid and causes
// no warning, except the mode with which tempomat must not start.
func TestPackagesAreTriedWithPresentKeys(t *testing.T) {
	data := testkit.ReadFile(t, "../deploy/package/test-inside")
	lines := regexp.MustCompile(`(?m)^\s*configure '(.+)'$`).FindAllStringSubmatch(data, -1)
	if len(lines) < 5 {
		t.Errorf("only %d lines", len(lines))
	}
	for _, l := range lines {
		c, err := Parse([]byte("backend: http://127.0.0.1:8081\n"+l[1]+"\n"), "tempomat.yaml", nil)
		if refused := l[1] == "throttle: {mode: fast}"; refused != (err != nil) || err == nil && len(c.Warnings) > 0 {
			t.Errorf("%s: %v, %+v", l[1], err, c)
		}
	}
}
