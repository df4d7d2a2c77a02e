package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// journal is what setup did, kept for the way back. It is written before the first
// change, so that also a setup that was killed can be taken back.
type journal struct {
	Server  string
	Check   []string
	Config  string
	Changes []Change
	Before  Service
	Reread  bool
	Systemd bool
	Probes  []Probe
	// Directories are those that setup made, outermost first.
	Directories []string
	// earlier is what setup did before, if this is what it does for sites that came since.
	earlier *journal
}

// whole is all that setup has done.
func (j *journal) whole() *journal {
	if j.earlier == nil {
		return j
	}
	all := *j.earlier
	all.Changes = slices.Concat(all.Changes, j.Changes)
	all.Probes = slices.Concat(all.Probes, j.Probes)
	all.Directories = slices.Concat(all.Directories, j.Directories)
	all.Reread = all.Reread || j.Reread
	return &all
}

// serverFile tells whether a change is of the web server's files, and not of what the proxy
// needs: its configuration, its unit, and access to keys.
func (j *journal) serverFile(c Change) bool {
	return c.Access == nil && c.Path != j.Config && !strings.Contains(c.Path, "/"+unitName+".service.d/")
}

// ports are those that the proxy took over.
func (j *journal) ports() (ports []int) {
	for _, p := range j.Probes {
		ports = append(ports, p.Port)
	}
	return ports
}

// public is the port that was taken over, and whether TLS is spoken there.
func (j *journal) public() (port int, secure bool) {
	if len(j.Probes) == 0 {
		return 0, false
	}
	return j.Probes[0].Port, j.Probes[0].TLS
}

// inner is the address on the loopback that the web server moved to.
func (j *journal) inner() string {
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	for _, c := range j.Changes {
		for _, e := range c.Edits {
			if found := address.FindString(strings.Join(e.New, "\n")); found != "" {
				return found
			}
		}
	}
	return ""
}

// checks are the commands that look at the changed files, before anything runs by them. The
// proxy's asks systemd in which groups the unit is.
func (j *journal) checks() [][]string {
	list := [][]string{j.Check}
	if j.Systemd && j.Reread {
		list = append(list, []string{"systemctl", "daemon-reload"})
	}
	return append(list, []string{unitName, "-check", "-config", j.Config})
}

// switching are the commands of systemd that have the servers run as the files say.
func (j *journal) switching() (list [][]string) {
	if j.earlier == nil {
		list = append(list, []string{"systemctl", "enable", unitName})
	}
	list = append(list, []string{"systemctl", reload, j.Server})
	if j.earlier == nil || j.Reread {
		list = append(list, []string{"systemctl", "restart", unitName})
	}
	return list
}

// journalName is its name, beside the configuration.
const journalName = "setup.json"

func journalFile(p Place) string { return p.Root + "/etc/tempomat/" + journalName }

func (j *journal) save(name string) error {
	text, err := json.MarshalIndent(j, "", "\t")
	if err != nil {
		return err
	}
	return replaceFile(name, text, 0o600, -1, -1)
}

func loadJournal(name string) (*journal, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	j := new(journal)
	if err := json.Unmarshal(text, j); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return j, nil
}

// missingDirectories are the directories of a file that are not there, outermost first.
func missingDirectories(name string) (list []string) {
	for dir := filepath.Dir(name); !exists(dir); dir = filepath.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}
