// The words of the scripts for booking.
var B = {
  name: '{{t "js.book.name"}}', from: '{{t "js.book.from"}}', until: '{{t "js.book.until"}}', comment: '{{t "js.book.comment"}}', noname: '{{t "book.noname"}}',
  badfrom: '{{t "js.book.begin"}}', baduntil: '{{t "js.book.end"}}', taken: '{{t "js.book.taken"}}', open: '{{t "book.open"}}',
  free: '{{t "js.book.free"}}', never: '{{t "js.book.never"}}', here: '{{t "js.book.here"}}', extend: '{{t "js.book.extend"}}',
  book: '{{t "book"}}', own: '{{t "js.book.own"}}', these: '{{t "js.book.these"}}', few: '{{t "js.book.few"}}', next: '{{t "js.book.next"}}',
  count: '{{t "js.book.count"}}', memory: '{{t "book.say.memory"}}', place: '{{t "js.book.place"}}', used: '{{t "js.book.used"}}'
};
