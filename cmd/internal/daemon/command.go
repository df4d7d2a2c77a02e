package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError is an error in the command line.
type UsageError struct{ error }

// Execute runs a command line. Flags may begin with one dash or two. An error in the command line is
// returned as a UsageError.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) error {
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	dashed := withTwoDashes(args)
	if slices.Contains(dashed, "--version") { // cobra's template would make the linker keep the methods of all types
		_, err := fmt.Fprintln(stdout, root.Version)
		return err
	}
	root.SetArgs(dashed)
	root.SetErr(stderr)
	root.SetOut(stdout)
	err := root.ExecuteContext(ctx)
	if err != nil && !understood {
		return UsageError{fmt.Errorf("%s: %w\nSee %s --help", root.Name(), err, root.Name())}
	}
	return err
}

// Status prints an error and returns its exit status: 0 without an error, 1 after a failure, 2 for an invalid
// command line.
func Status(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	if errors.As(err, new(UsageError)) {
		return 2
	}
	return 1
}

// Arguments checks that a command has one of the given numbers of arguments. The last number must be the
// largest. Messages show the command's usage.
func Arguments(numbers ...int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch most := numbers[len(numbers)-1]; {
		case len(args) > most:
			return fmt.Errorf("unexpected argument %q. Usage: %s (quote arguments that contain spaces)", args[most], c.UseLine())
		case !slices.Contains(numbers, len(args)):
			return fmt.Errorf("an argument is missing. Usage: %s", c.UseLine())
		}
		return nil
	}
}

// flagError adds the values that a flag accepts to the error.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	want := map[string]string{
		"int": "a whole number", "float64": "a number", "duration": "a duration, such as 90s or 1h", "bool": "true or false",
	}[bad.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// withTwoDashes lets flags begin with one dash, as in the original program: -bucket=Slash24. It doesn't
// change flags of one letter.
func withTwoDashes(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}
