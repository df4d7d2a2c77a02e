package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tempomat/config"
	"tempomat/internal/testkit"
)

// notRun contains the reasons why no test runs some documented commands, by the first words of these commands.
var notRun = map[string]string{
	"docker": "it needs Docker: deploy/docker/check runs the image where there is one",
	"helm":   "it needs a cluster: deploy/helm/check renders the chart and checks what comes out",
	"dnf":    "it needs Fedora: deploy/package/test installs the same file with rpm",
	"editor": "a person types there",
}

// booted are the scripts that run commands on a booted Debian. bootedAs contains the commands that differ in these
// scripts.
var (
	needsBoot = regexp.MustCompile(`^(apt|systemctl|userdel|tempomat-proxy setup)\b`)
	booted    = []string{"../../.ci/newcomer.d/run", "../../deploy/package/test-inside"}
	bootedAs  = map[string]string{
		"apt install ./dist/tempomat_*_amd64.deb":                            "apt-get install -y ./tempomat_*.deb",
		"apt install ./tempomat_*_amd64.deb ./tempomat-smockron_*_amd64.deb": "install new tempomat-smockron",
	}
)

// TestDocumentedCommands runs the commands in README and docs, page by page in their order. Each page has the files of
// a machine of its own. Other tests run the commands that need a booted machine. notRun lists the rest.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	backend := startBackend(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Tempomat-Cost", "0.1") })
	s := startProxy(t, backend, fmt.Sprintf("throttle: {mode: observe}\ncoordination: {kind: gossip, secret: %q, gossip: {listen: %q, join: [%q]}}\n",
		newSecret(t), testkit.FreeAddress(t), testkit.FreeAddress(t)))
	master := filepath.Join(s.dir, "master.sock")
	file := filepath.Join(s.dir, "master.yaml")
	testkit.WriteFile(t, file, fmt.Sprintf("listen: tcp://127.0.0.1:%s\nadmin: {listen: \"unix:%s\"}\ndomains: {shop.slash32: {rule: credit, cpus: 0.4, burst: 30s}}\n", freePort(t), master), 0o600)
	testkit.Start(t, nil, program(t, "tempomat-master"), "-config", file).Stderr.Await(t, 0, `"msg":"serving"`)
	found := 0
	for page, commands := range documentedCommands(t) {
		found += len(commands)
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			r := newReader(t, s, backend, master)
			for _, command := range commands {
				testkit.Same(t, "", r.try(command), "%s", command)
			}
		})
	}
	if found < 120 {
		t.Errorf("only %d commands were found", found)
	}
}

// documentedCommands returns the commands on each page. From the recipes, it takes only commands of tempomat, because
// TestWorldRecipes runs the others.
func documentedCommands(t *testing.T) map[string][]string {
	t.Helper()
	tested := testkit.ReadFile(t, "e2e_recipes_test.go")
	all := make(map[string][]string)
	for _, page := range documents(t) {
		text := testkit.ReadFile(t, page)
		recipe, isRecipe := strings.CutPrefix(page, "../../docs/recipes/")
		if isRecipe && !strings.Contains(tested, `page: "`+strings.TrimSuffix(recipe, ".md")+`"`) {
			t.Errorf("%s is no recipe that TestWorldRecipes follows", page)
		}
		for _, command := range commandsIn(text) {
			if !isRecipe && page != "../../docs/recipes.md" || ours.MatchString(command) {
				all[page] = append(all[page], command)
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
	// explanation matches the second column in a list of commands, or a redirection of the output.
	explanation = regexp.MustCompile(` {2,}| [|>] `)
	ours        = regexp.MustCompile(`^tempomat-(proxy|doctor|master)\b`)
	anyFenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// commandsIn returns the commands on a page: all lines in fences marked sh, and the lines in indented blocks that begin
// with a known program.
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
	return ours.MatchString(word) || notRun[word] != "" || slices.Contains(strings.Fields("apt cd chgrp chmod curl install journalctl make mkdir openssl "+
		"printf rm scp sed sha256sum ssh systemctl systemd-sysusers tar userdel"), word)
}

// machineOfPages creates the files that commands on the pages find on their machine. Programs that would affect this
// machine or another one are replaced by ones that only check their arguments.
const machineOfPages = `mkdir -p bin etc/tempomat etc/letsencrypt/live etc/letsencrypt/archive etc/systemd/system \
	run/tempomat run/tempomat-master usr/bin usr/share/tempomat var/lib/tempomat home/tempomat_1_linux_amd64/bin home/tempomat_1_linux_amd64/etc
ln -s ADMIN run/tempomat/admin.sock
ln -s MASTER run/tempomat-master/admin.sock
cp CONFIG etc/tempomat/tempomat.yaml
cp DEPLOY/master.yaml etc/tempomat/
mkdir etc/smockron
cp DEPLOY/../testdata/master/first.yaml etc/smockron/config.json
echo '{"backend": "http://127.0.0.1:3000", "listenPort": PORT}' >etc/tempomat.json
cp DEPLOY/systemd/tempomat-proxy.service.d/* usr/share/tempomat/
head -c 33 /dev/urandom | base64 >etc/tempomat/admin.token
chmod 600 etc/tempomat/admin.token
printf 'fail\nsilent\n' >.curlrc
for p in tempomat-doctor tempomat-proxy tempomat-master; do ln -s PROGRAMS/$p bin/; done
cat >bin/systemctl <<'END'
[ "$1 $2" = 'disable --now' ] || [ $1 = status ] || exit 2
for unit; do :; done
[ -e DEPLOY/systemd/$unit.service ]
END
echo '[ "$1" = -u ] && [ -e DEPLOY/systemd/$2.service ]' >bin/journalctl
echo "grep -q '^u tempomat ' $PWD/usr/lib/sysusers.d/tempomat.conf" >bin/systemd-sysusers
echo '[ "$1" = -p ] && [ -f "$2" ] && [ -d "${3#*:}" ]' >bin/scp
echo 'while getopts L:t o; do :; done; shift $OPTIND; exec "$@"' >bin/ssh
chmod +x bin/systemctl bin/journalctl bin/systemd-sysusers bin/scp bin/ssh
cd home
ln -s DEPLOY deploy
d=tempomat_1_linux_amd64
touch $d/bin/tempomat-proxy $d/bin/tempomat-doctor
cp DEPLOY/package/tempomat.yaml $d/etc/
mkdir $d/lib
cp DEPLOY/systemd/tempomat-proxy.service DEPLOY/systemd/tempomat-proxy.socket DEPLOY/package/tempomat.sysusers DEPLOY/package/refresh $d/lib/
tar -czf $d.tar.gz $d
sha256sum $d.tar.gz >SHA256SUMS
rm -r $d
`

// reader follows the instructions on a page.
type reader struct {
	*sidecarProcess
	t        *testing.T
	root, at string // root of its machine, and the current directory
	backend  string
	words    *strings.Replacer // replaces names on the page with those in the test
	booted   string
}

func newReader(t *testing.T, s *sidecarProcess, backend, master string) *reader {
	t.Helper()
	r := &reader{sidecarProcess: s, t: t, root: testkit.ShortDir(t), backend: backend}
	deploy, err := filepath.Abs("../../deploy")
	testkit.Must(t, err)
	here := strings.NewReplacer("ADMIN", s.admin, "MASTER", master, "CONFIG", s.file, "DEPLOY", deploy, "PROGRAMS", filepath.Dir(program(t, "tempomat-proxy")), "PORT", freePort(t))
	r.at = r.root
	if why := r.shell(here.Replace(machineOfPages)); why != "" {
		t.Fatal(why)
	}
	r.at = filepath.Join(r.root, "home")
	for _, file := range booted {
		r.booted += testkit.ReadFile(t, file)
	}
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	r.words = strings.NewReplacer("root:tempomat", uid+":"+gid, "chgrp -R tempomat", "chgrp -R "+gid, "-g tempomat", "-g "+gid, "127.0.0.1:8080", strings.TrimPrefix(backend, "http://"),
		"https://www.example.org/", s.url+"/", "http://10.0.0.2:8880", "/run/tempomat/admin.sock", "http://10.0.0.3:8880", "/run/tempomat/admin.sock", "FILE", "/etc/tempomat/tempomat.yaml")
	return r
}

// pathOfPage matches paths on the page's machine. pathBeyond matches paths that are left after these are replaced.
var (
	pathOfPage = regexp.MustCompile(`(^|[ >:])/(etc|run|usr|var)/`)
	pathBeyond = regexp.MustCompile(`(^|[ >:='"])/[a-z]`)
)

// try runs a command, and returns the problem with it, or an empty string if there is none.
func (r *reader) try(command string) string {
	command = strings.TrimPrefix(command, "bin/")
	first, rest, _ := strings.Cut(command, " ")
	if notRun[first] != "" || needsBoot.MatchString(command) && strings.Contains(r.booted, cmp.Or(bootedAs[command], command)) {
		return ""
	}
	if first == "make" {
		return r.hasTarget(strings.Fields(rest))
	}
	if strings.Contains(command, "127.0.0.1:8880") && first == "curl" {
		address := testkit.FreeAddress(r.t)
		startProxyWith(r.t, []string{"TEMPOMAT_ADMIN_WEB=" + address, "TEMPOMAT_ADMIN_TOKEN=" + r.root + "/etc/tempomat/admin.token"}, nil, r.backend, observed)
		command = strings.ReplaceAll(command, "127.0.0.1:8880", address)
	}
	switch command {
	case "tempomat-proxy secret new":
		command += " /etc/tempomat/fleet.secret" // its default
	case "tempomat-doctor master", "tempomat-doctor master shop.slash32":
		command += " --socket /run/tempomat-master/admin.sock" // its default
	case "tempomat-proxy -check", "tempomat-proxy -check -v":
		command += " -config /etc/tempomat/tempomat.yaml" // its default
	}
	command = pathOfPage.ReplaceAllString(r.words.Replace(command), "${1}"+r.root+"/$2/")
	switch {
	case !ours.MatchString(command) && pathBeyond.MatchString(strings.NewReplacer(r.root+"/", "", "/dev/null", "").Replace(command)):
		return "would reach beyond the test's own files"
	case first == "cd":
		found, err := filepath.Glob(filepath.Join(r.at, rest))
		if err != nil || len(found) != 1 {
			return fmt.Sprint(found, err)
		}
		r.at = found[0]
		return ""
	case strings.Contains(command, "tempomat-proxy -config"):
		r.serves(command, `"msg":"serving"`)
	case strings.HasSuffix(command, "tempomat-doctor dashboard --fleet"):
		r.serves(command+" --listen 127.0.0.1:0 --token "+r.root+"/etc/tempomat/admin.token", "is served at")
	default:
		return r.shell(command)
	}
	return ""
}

func (r *reader) env() []string {
	return []string{"PATH=" + r.root + "/bin:" + os.Getenv("PATH"), "HOME=" + r.root, "TEMPOMAT_ADMIN_LISTEN=unix:" + r.admin}
}

// shell runs a command that ends. The doctor may report that it doesn't know the client. If the proxy doesn't answer
// the doctor in time, shell runs the command again.
func (r *reader) shell(command string) string {
	for {
		c := exec.CommandContext(r.t.Context(), "bash", "-euc", command)
		c.Dir, c.Env = r.at, append(testkit.Environment(), r.env()...)
		out, err := c.CombinedOutput()
		switch {
		case err == nil, strings.Contains(string(out), "was not charged recently"):
			return ""
		case !strings.Contains(string(out), "didn't answer in time"):
			return fmt.Sprintf("%v: %s", err, out)
		}
	}
}

// serves runs a command that doesn't end, and kills it after it has printed the given text.
func (r *reader) serves(command, prints string) {
	env := []string{"TEMPOMAT_STATE=off"}
	if strings.Contains(command, "tempomat-proxy") {
		env = append(env, "TEMPOMAT_ADMIN_LISTEN=off")
	}
	p := testkit.Start(r.t, append(r.env(), env...), "bash", "-c", "exec "+command)
	p.Stderr.Await(r.t, 0, prints)
	p.Kill()
}

// hasTarget checks whether a make target exists.
func (r *reader) hasTarget(targets []string) string {
	makefile := testkit.ReadFile(r.t, "../../Makefile")
	for _, target := range targets {
		if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
			return "there is no target " + target
		}
	}
	return ""
}

// TestYAMLInDocs: the examples for tempomat.yaml on the pages are valid after the parts that they omit are added.
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
