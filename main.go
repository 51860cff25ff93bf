// Command gpuboard is a static-site generator for shared GPU servers, with
// file-drop collectors and reservations. See README.md.
package main

import (
	"os"

	"gpuboard/internal/cli"

	_ "time/tzdata" // a web host without zone files must still know its zone
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
