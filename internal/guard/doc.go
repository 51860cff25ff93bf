// Package guard holds tests of the building: which package may import which, how long a file may be, whether each
// reason code has its words.
package guard
