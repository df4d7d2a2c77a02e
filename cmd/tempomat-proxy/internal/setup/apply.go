package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Prober asks a site for its first page.
type Prober interface {
	// Probe returns the status of the answer.
	Probe(ctx context.Context, p Probe) (int, error)
}

// worker carries out a plan, or takes it back.
type worker struct {
	place Place
	run   Runner
	ask   Prober
	out   io.Writer // says what it does
}

// step is one thing to do. Whatever fails, all that was done is taken back.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// apply does what a plan says, all of it or nothing. If something fails it takes back
// what was done, and its error tells both.
func (w *worker) apply(ctx context.Context, p Plan, systemd bool) error {
	j := &journal{Server: p.Server, Check: p.Check, Config: p.Config, Changes: p.Changes, Before: p.Before, Reread: p.Reread, Systemd: systemd, Probes: p.Probes}
	for _, c := range p.Changes {
		if err := ready(c); err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
	}
	return w.carryOut(ctx, j, w.steps(j, commands(p)))
}

func (w *worker) carryOut(ctx context.Context, j *journal, steps []step) error {
	for _, s := range steps {
		fmt.Fprintln(w.out, "  "+s.name)
		if err := s.do(ctx); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			fmt.Fprintf(w.out, "%v\nTaking everything back:\n", err)
			// What was begun is taken back also if somebody interrupts.
			if back := w.undo(context.WithoutCancel(ctx), j); back != nil {
				return errors.Join(err, fmt.Errorf("and taking it back failed; \"tempomat-proxy setup -undo\" tries again: %w", back))
			}
			return fmt.Errorf("%w; everything is as it was", err)
		}
	}
	return nil
}

// steps are all of a plan: first the files, then the checks, and only then what
// people notice.
func (w *worker) steps(j *journal, commands [][]string) (steps []step) {
	file := journalFile(w.place)
	before := map[Probe]int{}
	steps = append(steps, step{"writing " + file + ", for the way back", func(ctx context.Context) error {
		for _, p := range j.Probes {
			before[p], _ = w.ask.Probe(ctx, p) // 0: there is no answer today either
		}
		return w.begin(j)
	}})
	for _, c := range j.Changes {
		steps = append(steps, step{"changing " + c.Path, func(context.Context) error { return put(c) }})
	}
	for _, c := range commands {
		if c[0] == "systemctl" && !j.Systemd {
			continue
		}
		steps = append(steps, w.command(c...))
	}
	if j.Systemd {
		for _, p := range j.Probes {
			steps = append(steps, step{fmt.Sprintf("asking port %d for %s", p.Port, p.Host), func(ctx context.Context) error {
				return w.sameAnswer(ctx, p, before[p])
			}})
		}
	}
	return steps
}

// begin makes the directories that are missing, and writes the journal.
func (w *worker) begin(j *journal) error {
	file := journalFile(w.place)
	for _, name := range append([]string{file}, paths(j.Changes)...) {
		for _, dir := range missingDirectories(name) {
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as the rest of /etc: the proxy, which is not root, reads there
				return err
			}
			j.Directories = append(j.Directories, dir)
		}
	}
	return j.save(file)
}

func paths(changes []Change) (list []string) {
	for _, c := range changes {
		list = append(list, c.Path)
	}
	return list
}

func (w *worker) command(argv ...string) step {
	return step{strings.Join(argv, " "), func(ctx context.Context) error {
		if text, err := w.run.Run(ctx, argv...); err != nil {
			return errors.New(lastLines(text, err))
		}
		return nil
	}}
}

// patience is how long the site may take to answer after all was started anew.
const patience = 20 * time.Second

// sameAnswer waits until a site answers as it did before. A site that did not answer
// then only has to answer.
func (w *worker) sameAnswer(ctx context.Context, p Probe, before int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var status int
	var err error
	for {
		status, err = w.ask.Probe(ctx, p)
		if err == nil && (status == before || before == 0 && status < 500) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("no answer: %w", err)
			}
			return fmt.Errorf("it answers %d, and before %d", status, before)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// undo takes back what a journal tells, made or not. It changes nothing if a file has
// become something that it cannot take back.
func (w *worker) undo(ctx context.Context, j *journal) error {
	var faults []error
	for _, c := range j.Changes {
		if c.Access == nil && !c.New {
			if _, err := restored(c); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	var errs []error
	try := func(s step) {
		fmt.Fprintln(w.out, "  "+s.name)
		if err := s.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if j.Systemd && !j.Before.Active {
		try(w.command("systemctl", "stop", unitName))
	}
	if j.Systemd && !j.Before.Enabled {
		try(w.command("systemctl", "disable", unitName))
	}
	for _, c := range slices.Backward(j.Changes) {
		try(step{"restoring " + c.Path, func(context.Context) error {
			kept, err := restore(c)
			if kept != "" {
				fmt.Fprintf(w.out, "    it was changed since: that is kept as %s\n", kept)
			}
			return err
		}})
	}
	for _, c := range w.afterwards(j) {
		try(w.command(c...))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return w.forget(j)
}

// afterwards are the commands that follow once the files are as they were.
func (w *worker) afterwards(j *journal) (list [][]string) {
	if !j.Systemd {
		return [][]string{j.Check}
	}
	if j.Reread {
		list = append(list, []string{"systemctl", "daemon-reload"})
	}
	if j.Before.Active { // it gives the port back first
		list = append(list, []string{"systemctl", "restart", unitName})
	}
	return append(list, j.Check, []string{"systemctl", "restart", j.Server})
}

// forget removes the journal, and the directories that setup made, if they are empty.
func (w *worker) forget(j *journal) error {
	if err := remove(journalFile(w.place)); err != nil {
		return err
	}
	for _, dir := range slices.Backward(j.Directories) {
		_ = os.Remove(dir) // somebody else's file may be there
	}
	return nil
}
