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
	mostChildren = 1 << 16 // of a pool; more is no number to believe
)

// fpmTitle is how a master of php-fpm names itself, before its file and ")".
const fpmTitle = "php-fpm: master process ("

// Pool is a pool of php-fpm: so many workers behind one listener.
type Pool struct {
	Name     string
	Children int // pm.max_children
	Listen   string
	master   process.Stat
}

// findFPM returns the pools of those of the processes that are php-fpm's masters. Files that
// not all users may read are left out. Any process may take that title, so only files of root
// and of this user are trusted.
func findFPM(root fs.FS, all []process.Stat) (pools []Pool) {
	files := map[string]bool{} // two masters of one file are one that is being replaced
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

// readFPM reads a master's file and what it includes.
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

// fpmReader takes in the lines of php-fpm's files. A pool may be told of in
// several; the last word counts.
type fpmReader struct {
	configReader

	pools map[string]*Pool
	pool  *Pool // whose section it is; nil: the global one
	most  int   // process.max; 0: not limited
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

// include reads the files of a pattern. A relative one is meant from where PHP
// was installed, which is a directory above that of the file.
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

func workersOf(pools []Pool) (n int) {
	for _, p := range pools {
		n += p.Children
	}
	return n
}

// tellPools says what was found, for the log: with several pools not all may
// serve this backend.
func tellPools(pools []Pool) string {
	if len(pools) == 1 {
		return fmt.Sprintf("php-fpm's pm.max_children of pool %.64q", pools[0].Name)
	}
	largest := slices.MaxFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Children, b.Children) })
	return fmt.Sprintf("php-fpm's pm.max_children of %d pools together; the largest, %.64q, has %d",
		len(pools), largest.Name, largest.Children)
}
