package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tempomat/config"
	"tempomat/internal/testkit"
)

// notRun are the documented commands that TestDocumentedCommands does not run, by their first words, and why.
var notRun = map[string]string{
	"a2dismod": onlyInRecipes, "a2enconf": onlyInRecipes, "a2enmod": onlyInRecipes, "a2disconf": onlyInRecipes, "a2ensite": onlyInRecipes,
	"apachectl": onlyInRecipes, "apache2ctl": onlyInRecipes,
	"apt": changesMachine, "apt-get": changesMachine, "dpkg": changesMachine, "install": changesMachine, "systemctl": changesMachine,
	"kill": changesMachine, "rm": changesMachine, "chmod": changesMachine, "chown": changesMachine, "chgrp": changesMachine, "systemd-sysusers": changesMachine, "mkdir": changesMachine, "setpriv": changesMachine,
	"ssh": elsewhere, "scp": elsewhere, "docker": elsewhere, "kubectl": elsewhere, "helm": elsewhere, "git": elsewhere,
	"journalctl": "there is no journal in a test", "sudo": changesMachine,
	"openssl": "it is not ours: it makes random characters", "head": "it is not ours: it makes random characters",
	"go": "it is a test or benchmark of this repository itself", "watch": "it does not end; what it watches is run by itself",
	"curl -s http://www.example.org/tempomat-check.php": "TestWorldRecipes does it",
	"curl -I http://localhost/":                         atReader, "curl -si -A": atReader, "curl -so /dev/null -w": atReader, "curl -sI http://127.0.0.1:8080/index.php": atReader,
	"curl -H": "it asks admin.web: TestToken does",
}

const (
	onlyInRecipes  = "it changes a web server: TestWorldRecipes does it with the real ones"
	changesMachine = "it changes the machine"
	elsewhere      = "it is for another machine"
	atReader       = "it is for the reader's own site"
)

// onlyParsed are commands of tempomat that can't run here. The test checks their flags by adding a wrong one,
// which must be the first that is reported.
var onlyParsed = []string{
	"tempomat-doctor top", "tempomat-doctor master",
	"tempomat-proxy -config", "tempomat-proxy setup", "tempomat-proxy secret", "tempomat-master -config", "tempomat-doctor reload --socket",
}

// TestDocumentedCommands runs every command of README and docs against a sidecar, unless it is listed above.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	s := startProxy(t, "http://127.0.0.1:9", "throttle: {mode: observe}\n")
	commands := documentedCommands(t)
	if len(commands) < 60 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for command, page := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if why := (&reader{s}).try(t, command); why != "" {
				t.Errorf("%s: %s: %s", page, command, why)
			}
		})
	}
}

// documentedCommands returns the commands, each with a page that has it. From the recipes it takes only
// commands of tempomat: TestWorldRecipes runs the others.
func documentedCommands(t *testing.T) map[string]string {
	t.Helper()
	tested := testkit.ReadFile(t, "e2e_recipes_test.go")
	all := make(map[string]string)
	for _, page := range documents(t) {
		text := testkit.ReadFile(t, page)
		recipe, isRecipe := strings.CutPrefix(page, "../../docs/recipes/")
		if isRecipe && !strings.Contains(tested, `page: "`+strings.TrimSuffix(recipe, ".md")+`"`) {
			t.Errorf("%s is no recipe that TestWorldRecipes follows", page)
		}
		for _, command := range commandsIn(text) {
			if !isRecipe || ours.MatchString(command) {
				all[command] = strings.TrimPrefix(page, "../../")
			}
		}
	}
	return all
}

func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/recipes/*.md", "../../deploy/*/README.md"} {
		found, err := filepath.Glob(pattern)
		testkit.Must(t, err)
		all = append(all, found...)
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

var (
	shell   = regexp.MustCompile("(?ms)^ *```(?:sh|console|bash)[^\n]*\n(.*?)^ *```")
	comment = regexp.MustCompile(`\s#\s.*$`)
	// explanation is the second column in a list of commands, or a redirection of the output.
	explanation = regexp.MustCompile(` {2,}| [|>] `)
	ours        = regexp.MustCompile(`^tempomat-(proxy|doctor|master)\b`)
	anyFenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// commandsIn returns the commands of a page: all lines of fences marked sh, and the lines of indented blocks
// that begin with a known program.
func commandsIn(page string) (all []string) {
	add := func(line string, known bool) {
		line = strings.TrimSpace(comment.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(line), "$ "), ""))
		word, _, _ := strings.Cut(line, " ")
		if line == "" || strings.HasPrefix(line, "#") || known && !isProgram(word) || strings.HasPrefix(line, "tempomat-doctor --help") {
			return
		}
		if ours.MatchString(line) {
			line = explanation.Split(line, 2)[0]
		}
		for part := range strings.SplitSeq(line, " && ") {
			all = append(all, strings.TrimSpace(part))
		}
	}
	for _, block := range shell.FindAllStringSubmatch(page, -1) {
		for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", " "), "\n") {
			add(line, false)
		}
	}
	blank := true
	inside := false
	for line := range strings.SplitSeq(strings.ReplaceAll(anyFenced.ReplaceAllString(page, ""), "\\\n", " "), "\n") {
		indented := strings.HasPrefix(line, "    ")
		inside = indented && (inside || blank)
		blank = strings.TrimSpace(line) == ""
		if inside {
			add(line, true)
		}
	}
	return all
}

func isProgram(word string) bool {
	if _, known := notRun[word]; known {
		return true
	}
	return ours.MatchString(word) || slices.Contains([]string{"make", "curl", "bin/tempomat-proxy", "bin/tempomat-doctor", "bin/tempomat-master", "GET"}, word)
}

// reader carries out the documentation.
type reader struct{ *sidecarProcess }

// try returns what is wrong with a command; empty: nothing.
func (r *reader) try(t *testing.T, command string) string {
	command = strings.TrimPrefix(command, "bin/")
	words := strings.Fields(command)
	for excused := range notRun {
		if command == excused || strings.HasPrefix(command, excused+" ") {
			return ""
		}
	}
	switch {
	case words[0] == "make":
		return r.hasTarget(words[1:])
	case words[0] == "GET":
		return r.asks(t, words[1:])
	case strings.HasPrefix(command, "curl --unix-socket /run/tempomat/admin.sock http://tempomat"):
		return r.asks(t, []string{strings.TrimPrefix(words[3], "http://tempomat")})
	case !ours.MatchString(command):
		return "is neither run nor excused"
	}
	for _, only := range onlyParsed {
		if command == only || strings.HasPrefix(command, only+" ") {
			return r.parses(words)
		}
	}
	return r.runs(t, words)
}

// hasTarget checks whether a make target exists.
func (r *reader) hasTarget(targets []string) string {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		return err.Error()
	}
	for _, target := range targets {
		if !strings.Contains(target, "=") && !strings.Contains(string(text), "\n"+target+":") {
			return "there is no target " + target
		}
	}
	return ""
}

// asks requests paths of the admin API.
func (r *reader) asks(t *testing.T, paths []string) string {
	for _, path := range paths {
		if strings.HasPrefix(path, "#") {
			return ""
		}
		if strings.HasPrefix(path, "/v1/master") || strings.HasPrefix(path, "/v1/identifiers") {
			continue // the master's paths, and those that don't end
		}
		status := fetch(t, newUnixClient(t, r.admin), http.MethodGet, "http://tempomat"+path, nil, nil).StatusCode
		if status != http.StatusOK && !(strings.HasPrefix(path, "/v1/key") && status == http.StatusNotFound) {
			return "is answered with " + http.StatusText(status)
		}
	}
	return ""
}

// parses checks a program's command line: it adds an unknown flag, which must be reported.
func (r *reader) parses(words []string) string {
	out, _ := exec.Command(program(r.t, words[0]), append(words[1:len(words):len(words)], "--nonsense")...).CombinedOutput() // it fails
	if !strings.Contains(string(out), "nonsense") {
		return string(out)
	}
	return ""
}

// runs runs a command with files that exist. The doctor may not know the client in the question.
func (r *reader) runs(t *testing.T, words []string) string {
	args := slices.Clone(words[1:])
	for i, a := range args {
		switch a {
		case "/etc/tempomat/tempomat.yaml", "FILE":
			args[i] = r.file
		case "/etc/tempomat.json":
			args[i] = "../../testdata/config/good/tempomat.json"
		case "/etc/tempomat/master.yaml":
			args[i] = "../../deploy/master.yaml"
		case "/etc/smockron/config.json":
			return "" // the original master's file, which its own tests cover
		}
	}
	env := []string{"TEMPOMAT_ADMIN_LISTEN=unix:" + r.admin}
	status, _, errs := testkit.Execute(t, env, program(t, words[0]), args...)
	if status == 2 || status != 0 && words[0] != "tempomat-doctor" {
		return errs
	}
	return ""
}

// TestYAMLInDocs: the pages' examples for tempomat.yaml are valid, once the parts that they omit are added.
func TestYAMLInDocs(t *testing.T) {
	t.Parallel()
	fenced := regexp.MustCompile("(?ms)^```yaml(?: title=\"[^\"]*tempomat.yaml\")?\n(.*?)^```")
	found := 0
	for _, page := range documents(t) {
		text := testkit.ReadFile(t, page)
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			found++
			whole := block[1]
			for key, value := range map[string]string{"backend": "http://127.0.0.1:3000", "listen": `[{address: ":443", tls: true}, ":8888"]`} {
				if !strings.Contains("\n"+whole, "\n"+key+":") && (key == "backend" || strings.Contains("\n"+whole, "\ntls:")) {
					whole += key + ": " + value + "\n"
				}
			}
			if _, err := config.Parse([]byte(whole), "tempomat.yaml", nil); err != nil {
				t.Errorf("%s: %v\n%s", page, err, whole)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks", found)
	}
}
