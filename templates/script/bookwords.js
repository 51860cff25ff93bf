// The words of the scripts for booking.
const bookWords = {
  book: '{{t "book"}}',
  comment: '{{t "js.book.comment"}}',
  extend: '{{t "js.book.extend"}}',
  from: '{{t "js.book.from"}}',
  here: '{{t "js.book.here"}}',
  name: '{{t "js.book.name"}}',
  never: '{{t "js.book.never"}}',
  noName: '{{t "book.noname"}}',
  openEnd: '{{t "book.open"}}',
  own: '{{t "js.book.own"}}',
  pick: '{{t "book.pick"}}',
  taken: '{{t "js.book.taken"}}',
  until: '{{t "js.book.until"}}',
};
