package atomicfile

import (
	"hash/maphash"
	"io/fs"
	"syscall"
	"time"
)

// A Known remembers from one batch to the next what the files below one
// directory held.
//
// A file that nobody touched is recognized by its inode, size and times, and
// not read again to find that it is the same. Whoever changes a file, by
// whatever means, changes the time that the file system keeps of that, which
// nobody can set: the next batch reads it and puts it right. [Known.Holds] goes
// further and does not look at all; when that is good enough is the caller's
// decision.
//
// What was written once and is handed in again, the very same bytes in memory, is
// recognized without a sum of them: nobody may change what a batch was given.
//
// The zero value is ready to use. It is for one batch at a time.
type Known struct {
	files map[string]*knownFile
	seed  maphash.Seed
	// settled is how old a change must be before its time is relied upon, 0 for
	// two seconds: a second change at once might leave the same time behind.
	settled time.Duration
}

// knownFile is what one file held: a sum of it, and what it looked like, which
// is the zero mark where nobody looked.
type knownFile struct {
	of   *Known
	held bool
	mark mark
	contentSum
	asked contentSum // the last one that was added up, which may be asked for again
}

// is reports whether data is known to be what the file holds; where the bytes
// are not those of the last time, by their sum.
func (f *knownFile) is(data parts) bool {
	if f == nil || !f.held {
		return false
	}
	if data.isAt(f.contentSum) {
		return true
	}
	if start := data.start(f.of.seed); f.size != start.size || f.head != start.head {
		return false
	}
	now := f.sumOf(data)
	if !f.whole || f.sum != now.sum {
		return false
	}
	f.contentSum = now
	return true
}

// mark tells one state of a file from another without reading it.
type mark struct {
	dev, inode        uint64
	size              int64
	modified, changed time.Time
}

// Remember lets the batch use and extend what k knows of the files below the
// batch's directory.
func (b *Batch) Remember(k *Known) {
	k.start()
	b.known = k
}

func (k *Known) start() {
	if k.files == nil {
		k.files, k.seed = map[string]*knownFile{}, maphash.MakeSeed()
	}
	if k.settled == 0 {
		k.settled = 2 * time.Second
	}
}

// Holds reports whether these parts are what a batch found in the file rel, or
// wrote there, when it last had to do with it. It does not look at the file.
func (k *Known) Holds(rel string, parts ...[]byte) bool {
	k.start()
	return k.files[rel].is(parts)
}

func (k *Known) file(rel string) *knownFile {
	if k == nil {
		return nil
	}
	f := k.files[rel]
	if f == nil {
		f = &knownFile{of: k}
		k.files[rel] = f
	}
	return f
}

func (k *Known) forget(rel string) {
	if k != nil {
		delete(k.files, rel)
	}
}

// same reports whether the file that looks like info is known to hold data.
func (f *knownFile) same(info fs.FileInfo, data parts) bool {
	return f != nil && f.held && f.mark != (mark{}) && f.mark == markOf(info) && f.is(data)
}

// found remembers that the file that looked like info before it was read held
// data.
func (f *knownFile) found(info fs.FileInfo, data parts) {
	if f == nil {
		return
	}
	f.wrote(f.sumOf(data))
	f.looksLike(info)
}

// looksLike remembers what the file looked like before it was read.
func (f *knownFile) looksLike(info fs.FileInfo) {
	if m := markOf(info); !m.changed.IsZero() && time.Since(m.changed) > f.of.settled {
		f.mark = m
	}
}

func (f *knownFile) sumOf(data parts) contentSum {
	if f == nil {
		return contentSum{}
	}
	if !f.asked.whole || !data.isAt(f.asked) {
		f.asked = data.sum(f.of.seed)
	}
	return f.asked
}

// sumToWrite is what to remember of data that is written: of what is large no more
// than its head, unless it was added up to be compared. If the next one begins in
// the same way it is taken for another, written, and added up then.
func (f *knownFile) sumToWrite(data parts) contentSum {
	if f == nil || data.size() < headFrom || f.asked.whole && data.isAt(f.asked) {
		return f.sumOf(data)
	}
	return data.start(f.of.seed)
}

// wrote remembers what the file holds now. What it looks like is found out by
// whoever needs it.
func (f *knownFile) wrote(c contentSum) {
	if f != nil {
		f.held, f.contentSum, f.mark = true, c, mark{}
	}
}

// differs forgets what the file held.
func (f *knownFile) differs() {
	if f != nil {
		f.held, f.mark = false, mark{}
	}
}

// markOf has no change time where the system tells none; such a mark is not
// relied upon.
func markOf(info fs.FileInfo) mark {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return mark{}
	}
	return mark{dev: uint64(sys.Dev), inode: sys.Ino, size: info.Size(), modified: info.ModTime(), changed: changeTime(sys)}
}
