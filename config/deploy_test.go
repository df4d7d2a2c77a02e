package config

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// TestShippedMasterFile: it shows every key at its default, and its domains are what
// the sidecars' shipped file shares: none would go unnoticed, and each address may
// use at all sidecars together what it may use at one of 4 CPUs.
func TestShippedMasterFile(t *testing.T) {
	const file = "../deploy/master.yaml"
	m, err := LoadMaster(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load("../deploy/tempomat.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultMaster()
	for _, class := range c.Classes {
		want.Domains = append(want.Domains, MasterDomain{c.Coordination.Smockron.Site + "." + class.Name, []MasterRule{{
			Rule: "credit", CPUs: 4 * class.Share, Burst: class.Burst, Memory: c.Throttle.Memory,
		}}})
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("%s, -want +got:\n%s", file, diff)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range masterSettings(DefaultMaster()) {
		if key := s.Path[strings.LastIndexByte(s.Path, '.')+1:]; s.AliasOf == "" && !strings.Contains(string(data), key+":") {
			t.Errorf("%s does not show %s", file, s.Path)
		}
	}
}

const composeDir = "../deploy/compose"

// TestCompose: three sidecars, each before a PHP of its own, share through a master that has a rule for each of
// their classes, as generous as a sidecar itself, and a Redis. What compose.yaml names is there.
func TestCompose(t *testing.T) {
	data, err := os.ReadFile(composeDir + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Services map[string]struct {
			Image          string
			Command        []string
			Environment    map[string]string
			Volumes, Ports []string
			DependsOn      []string `yaml:"depends_on"`
		}
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	isOf := func(address, image string) bool {
		u, err := url.Parse(address)
		return err == nil && strings.HasPrefix(c.Services[u.Hostname()].Image, image)
	}
	var master *Master
	sidecars := make(map[string]*Config) // by their backends
	for name, s := range c.Services {
		file := ""
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			path := filepath.Join(composeDir, parts[0])
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
			if len(s.Command) > 0 && parts[1] == s.Command[len(s.Command)-1] {
				file = path
			}
		}
		for _, other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
		switch {
		case s.Image != "tempomat":
		case s.Command[0] == "tempomat-master":
			if master, err = LoadMaster(file); err != nil {
				t.Fatal(err)
			}
		default:
			var env []string
			for k, v := range s.Environment {
				env = append(env, k+"="+v)
			}
			car, err := Load(file, env)
			if err != nil {
				t.Fatal(err)
			}
			sidecars[car.Backend.URL] = car
			if !isOf(car.Backend.URL, "php:") || len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], ":8888") || car.Listen[0].Address != ":8888" {
				t.Errorf("%s is before %s, listens on %v and publishes %v", name, car.Backend.URL, car.Listen, s.Ports)
			}
		}
	}
	if len(sidecars) != 3 || master == nil || !isOf(master.Store, "redis:") {
		t.Fatalf("%d sidecars, want three and a master with a store", len(sidecars))
	}
	rules := make(map[string][]MasterRule)
	for _, d := range master.Domains {
		rules[d.Name] = d.Rules
	}
	for _, car := range sidecars {
		if m := car.Coordination.Smockron.Masters; car.Coordination.Kind != "smockron" || len(m) != 1 || m[0].Control != "tcp://master:10005" {
			t.Errorf("the sidecars share by %+v", car.Coordination)
		}
		for _, class := range car.Classes {
			want := []MasterRule{{Rule: "credit", CPUs: class.Share * car.CPUCount, Burst: class.Burst, Memory: car.Throttle.Memory}}
			if diff := cmp.Diff(want, rules[car.Coordination.Smockron.Site+"."+class.Name]); diff != "" {
				t.Errorf("%s, -want +got:\n%s", class.Name, diff)
			}
		}
	}
}

// TestDockerfile builds with the Go that go.mod asks for, and runs on the Debian
// that it was built on.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile(composeDir + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))
	from := regexp.MustCompile(`(?m)^FROM golang:(\S+)-(\w+) AS build$[\s\S]*^FROM debian:(\w+)-slim$`).FindStringSubmatch(string(data))
	if goes == nil || from == nil || from[1] != goes[1] || from[2] != from[3] {
		t.Errorf("go.mod has %q, the Dockerfile %q", goes, from)
	}
}
