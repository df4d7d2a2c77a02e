package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takes has a command take that many arguments, which its Use names.
func takes(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return fmt.Errorf("there is something missing: tempomat-doctor %s", c.Use)
		case len(args) > n:
			return fmt.Errorf("%q is too much: tempomat-doctor %s (quote what has blanks in it)", args[n], c.Use)
		}
		return nil
	}
}

// flagError says what a flag's value has to be, and what to use in place of one that there was. The library tells the function that failed.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && c.Name() == "report" && unknown.GetSpecifiedName() == "html" {
		return errors.New("the flag --html of report is gone; use --json, or the dashboard")
	}
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
