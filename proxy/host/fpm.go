package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"tempomat/cpuaccount/process"
)

// Limits for reading php-fpm's processes.
const (
	mostMasters  = 8
	mostPools    = 16
	mostChildren = 1 << 16 // maximum number of workers in a pool; a larger number must be a mistake
)

// fpmTitle is the beginning of the title of a php-fpm master. The path of its configuration file and ")" follow.
const fpmTitle = "php-fpm: master process ("

// Pool is a php-fpm pool: a number of workers behind one listener.
type Pool struct {
	Name     string
	Children int // pm.max_children
	Listen   string
	at       listener // where it listens
	master   process.Stat
}

// findFPM returns the pools of all php-fpm masters among the processes. Any process can give itself the title
// of a php-fpm master. Therefore a configuration file counts only if it belongs to root or this user, and if
// all users may read it but not write it.
func findFPM(root fs.FS, all []process.Stat) (pools []Pool) {
	files := map[string]bool{} // while a master is being replaced, two masters have the same file
	for _, p := range tops(all, func(name string) bool { return strings.HasPrefix(name, "php-fpm") }) {
		title := commandLine(root, p.PID)[0]
		if !strings.HasPrefix(title, fpmTitle) {
			continue
		}
		file, _, _ := strings.Cut(title[len(fpmTitle):], ")")
		if !path.IsAbs(file) || files[file] || len(files) == mostMasters {
			continue
		}
		files[file] = true
		for _, pool := range readFPM(root, file) {
			pool.master = p
			pools = append(pools, pool)
		}
	}
	return pools[:min(len(pools), mostPools)]
}

// readFPM reads a master's file and the files that it includes.
func readFPM(root fs.FS, file string) []Pool {
	r := fpmReader{configReader: configReader{root: root}, pools: map[string]*Pool{}}
	r.file(file)
	limit := cmp.Or(r.most, mostChildren)
	var pools []Pool
	for _, name := range slices.Sorted(maps.Keys(r.pools)) {
		if p := *r.pools[name]; p.Children > 0 {
			p.Children = min(p.Children, limit)
			p.Listen = strings.ReplaceAll(p.Listen, "$pool", name)
			pools = append(pools, p)
		}
	}
	return pools
}

// fpmReader reads php-fpm's files. If several places describe the same pool, the last value of each setting counts.
type fpmReader struct {
	configReader

	pools map[string]*Pool
	pool  *Pool // pool of the current section; nil: the global section
	most  int   // process.max; 0: no limit
}

func (r *fpmReader) file(name string) {
	f := r.read(name)
	r.pool = nil
	for line := range strings.Lines(f.Text) {
		line = strings.TrimSpace(line)
		if section, ok := strings.CutPrefix(line, "["); ok {
			section, _, _ = strings.Cut(section, "]")
			r.section(strings.TrimSpace(section))
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			value, _, _ = strings.Cut(value, ";")
			r.set(f.Path, strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
}

func (r *fpmReader) section(name string) {
	r.pool = nil
	if name == "global" {
		return
	}
	if r.pools[name] == nil && len(r.pools) < mostPools {
		r.pools[name] = &Pool{Name: name}
	}
	r.pool = r.pools[name]
}

func (r *fpmReader) set(file, key, value string) {
	n, err := strconv.Atoi(value)
	number := err == nil && n > 0 && n <= mostChildren
	switch p := r.pool; {
	case key == "include":
		r.include(file, value)
		r.pool = p
	case key == "process.max" && number:
		r.most = n
	case p == nil:
	case key == "pm.max_children" && number:
		p.Children = n
	case key == "listen":
		p.Listen = value
	}
}

// include reads the files that match a pattern. A relative pattern starts at PHP's installation prefix, which
// is a parent of the file's directory.
func (r *fpmReader) include(file, pattern string) {
	for dir := path.Dir(file); !r.isDone(); dir = path.Dir(dir) {
		names := r.matching(dir, pattern)
		for _, name := range names {
			r.file(name)
		}
		if len(names) > 0 || path.IsAbs(pattern) || dir == "/" {
			return
		}
	}
}

// together returns the total number of workers of the pools, and the setting that limits them, for the log.
func together(pools []Pool) (workers int, by string) {
	var names []string
	for _, p := range pools {
		workers += p.Children
		names = append(names, fmt.Sprintf("%.64q", p.Name))
	}
	return workers, "php-fpm's pm.max_children of pool " + strings.Join(names, ", ")
}
