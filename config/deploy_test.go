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

// compose is what is looked at of deploy/compose/compose.yaml.
type compose struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   []string `yaml:"depends_on"`
	}
}

const composeDir = "../deploy/compose"

func readCompose(t *testing.T) (c compose) {
	t.Helper()
	data, err := os.ReadFile(composeDir + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComposeFiles: what compose.yaml names is there, and its services know each
// other by the names that they have.
func TestComposeFiles(t *testing.T) {
	c := readCompose(t)
	exists := func(path string) {
		t.Helper()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	var master *Master
	var sidecars []*Config
	backends := make(map[string]bool)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			host, _, _ := strings.Cut(v, ":")
			exists(filepath.Join(composeDir, host))
		}
		for _, other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
		if s.Image != "tempomat" {
			continue
		}
		exists(filepath.Join(composeDir, s.Build.Context, "go.mod"))
		exists(filepath.Join(composeDir, s.Build.Context, s.Build.Dockerfile))
		file := mounted(t, s.Volumes, s.Command[len(s.Command)-1])
		switch s.Command[0] {
		case "tempomat-master":
			m, err := LoadMaster(file)
			if err != nil {
				t.Fatal(err)
			}
			master = m
		case "tempomat-proxy":
			var env []string
			for k, v := range s.Environment {
				env = append(env, k+"="+v)
			}
			car, err := Load(file, env)
			if err != nil {
				t.Fatal(err)
			}
			sidecars = append(sidecars, car)
			u, err := url.Parse(car.Backend.URL)
			if err != nil || !strings.HasPrefix(c.Services[u.Hostname()].Image, "php:") || backends[u.Host] {
				t.Errorf("%s has the backend %s, %v; want another service of PHP for each", name, car.Backend.URL, err)
			}
			backends[u.Host] = true
			if len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], ":8888") || cmp.Diff(car.Listen, []Listener{{Address: ":8888"}}) != "" {
				t.Errorf("%s listens on %v and publishes %v", name, car.Listen, s.Ports)
			}
		default:
			t.Errorf("%s runs %v", name, s.Command)
		}
	}
	if len(sidecars) != 3 || master == nil {
		t.Fatalf("%d sidecars, want three and a master", len(sidecars))
	}
	store, err := url.Parse(master.Store)
	if err != nil || !strings.HasPrefix(c.Services[store.Hostname()].Image, "redis:") {
		t.Errorf("the store is %s, %v", master.Store, err)
	}
	sharesAll(t, sidecars[0], master)
}

// sharesAll checks that the master has a rule for each class of a sidecar, as
// generous as the sidecar itself.
func sharesAll(t *testing.T, c *Config, m *Master) {
	t.Helper()
	want := MasterAddress{"tcp://master:10004", "tcp://master:10005"}
	if c.Coordination.Kind != "smockron" || len(c.Coordination.Smockron.Masters) != 1 || c.Coordination.Smockron.Masters[0] != want {
		t.Errorf("the sidecars share by %+v", c.Coordination)
	}
	rules := make(map[string][]MasterRule)
	for _, d := range m.Domains {
		rules[d.Name] = d.Rules
	}
	for _, class := range c.Classes {
		domain := c.Coordination.Smockron.Site + "." + class.Name
		want := []MasterRule{{Rule: "credit", CPUs: class.Share * c.CPUCount, Burst: class.Burst, Memory: c.Throttle.Memory}}
		if diff := cmp.Diff(want, rules[domain]); diff != "" {
			t.Errorf("%s, -want +got:\n%s", domain, diff)
		}
	}
}

// mounted returns the file that a container has under that path.
func mounted(t *testing.T, volumes []string, path string) string {
	t.Helper()
	for _, v := range volumes {
		if parts := strings.Split(v, ":"); parts[1] == path {
			return filepath.Join(composeDir, parts[0])
		}
	}
	t.Fatalf("no file is mounted as %s", path)
	return ""
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
