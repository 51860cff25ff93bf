// Package e2e holds tests of the whole product: they build the program and run it beside real servers, browsers and
// system calls that fail.
package e2e
