// This is inside the package because only a hook of File lets a test act between two of its system calls, and only
// another one stands for a file system that cannot exchange two files.

package booking

import "errors"

// OnStep lets a test act before each operation of the File that changes a name, and before each reading.
func (f *File) OnStep(do func(what string)) { f.step = do }

// WithoutExchange puts the File on a file system that cannot exchange two files, such as NFS.
func (f *File) WithoutExchange() {
	f.exchange = func(string, string) error { return errors.ErrUnsupported }
}
