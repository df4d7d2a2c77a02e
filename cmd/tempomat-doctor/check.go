package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"tempomat/config"
)

// check reads a configuration and opens nothing but its file.
func (d *doctor) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file and print the limits that it sets",
		Long: `Check a configuration file of the proxy, and print the limits that it sets in CPU-seconds
for the number of CPUs that it names, or of this machine. No proxy is needed, and
nothing is opened but the file.`,
		Example: `  tempomat-doctor check /etc/tempomat/tempomat.yaml`,
		Args:    takes(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := config.Load(args[0], d.env)
			if err != nil {
				return fmt.Errorf("%s cannot be used:\n%w", args[0], err)
			}
			cpus := c.CPUCount
			if cpus == 0 {
				cpus = float64(runtime.NumCPU())
			}
			c.Describe(d.stdout, cpus)
			return nil
		},
	}
}
