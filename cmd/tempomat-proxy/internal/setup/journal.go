package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	return j, json.Unmarshal(text, j)
}

// missingDirectories are the directories of a file that are not there, outermost first.
func missingDirectories(name string) (list []string) {
	for dir := filepath.Dir(name); !exists(dir); dir = filepath.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}
