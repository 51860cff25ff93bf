// The words of the script. Each is put in when the site is made, from words.json.
var W = {
  unknown: '{{t "unknown"}}', ago: '{{t "js.ago"}}', copy: '{{t "js.copy"}}', copied: '{{t "js.copied"}}',
  stopped: '{{t "js.stopped"}}', late: '{{t "js.late"}}', was: '{{t "js.was"}}', oldtitle: '{{t "js.oldtitle"}}',
  clock: '{{t "js.clock"}}', zone: '{{t "js.zone"}}', matched: '{{t "js.hidden"}}',
  search: '{{t "js.search"}}', nowfree: '{{t "js.free"}}', book: '{{t "book"}}', bookname: '{{t "js.book.name"}}',
  bookuntil: '{{t "js.book.until"}}', booknoname: '{{t "book.noname"}}', gib: '{{t "sign.gib"}}',
  bookcomment: '{{t "js.book.comment"}}', bookend: '{{t "js.book.end"}}', booktaken: '{{t "js.book.taken"}}',
  bookopen: '{{t "book.open"}}', bookfree: '{{t "js.book.free"}}', bookhere: '{{t "js.book.here"}}',
  saved: '{{t "js.saved"}}', light: '{{t "js.light"}}', dark: '{{t "js.dark"}}', auto: '{{t "js.auto"}}',
  pause: '{{t "js.pause"}}', resume: '{{t "js.resume"}}', fold: '{{t "js.fold"}}', foldall: '{{t "js.foldall"}}',
  unfoldall: '{{t "js.unfoldall"}}', keys: '{{t "js.keys"}}', nokeys: '{{t "js.nokeys"}}', help: '{{t "js.help"}}',
  anymodel: '{{t "js.any.model"}}', anymemory: '{{t "js.any.memory"}}', anyuser: '{{t "js.any.user"}}',
  anytag: '{{t "js.any.tag"}}', sec: '{{t "unit.s"}}', min: '{{t "unit.min"}}', hour: '{{t "unit.h"}}',
  day: '{{t "unit.d"}}'
};
