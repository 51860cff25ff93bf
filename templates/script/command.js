// What is wished for, as the command takes it, and held against the bookings of others. A wish
// has the texts of the fields name, from, until and comment; a booking has a name, and from
// and until in milliseconds, which may be infinite.
const { fill, now } = window.gpuboard;

// readTimes reads the beginning and the end of a wish, or says what is wrong with them.
function readTimes(wish) {
  const present = new Date(now());
  const from = readFrom(wish.from, present);
  const until = from && readUntil(wish.until, from, present);
  const problem = until ? "" : from ? bookWords.badUntil : bookWords.badFrom;
  return { from, until, problem };
}

// brief is a moment in the words of the page's language.
function brief(moment) {
  return new Date(moment).toLocaleString(document.documentElement.lang, {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    hour12: false,
  });
}

const overlaps = (booking, from, until) => booking.from < until && booking.until > from;

function isOwn(booking, wish) {
  const name = wish.name.trim().toLowerCase();
  return name !== "" && booking.name.toLowerCase() === name;
}

function spanText(from, until) {
  return brief(from) + " – " + (until === Infinity ? bookWords.openEnd : brief(until));
}

// clashText says who has booked what is wanted from then on.
function clashText(booking, from) {
  return fill(bookWords.taken, booking.name, spanText(Math.max(booking.from, from), booking.until));
}

// exact is what was typed, as it means the same everywhere: a length of time as it is.
function exact(text, moment) {
  const typed = text.trim();
  return typed && !readSpan(typed) && moment instanceof Date ? stamp(moment) : typed;
}

// quote is a text as one word of a shell.
function quote(text) {
  return /^[\w.@%+=:,/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

// bookCommand is the command that books these places, with the flags for what is wished.
function bookCommand(program, places, wish, from, until) {
  const flags = {
    from: exact(wish.from, from),
    [readSpan(wish.until) ? "for" : "until"]: exact(wish.until, until),
    name: wish.name.trim() || bookWords.noName,
    comment: wish.comment.trim(),
  };
  const typed = Object.entries(flags).filter(([, value]) => value);
  return [
    program,
    "book",
    ...places.map(quote),
    ...typed.map(([flag, value]) => "--" + flag + " " + quote(value)),
  ].join(" ");
}

// What the script for several GPUs uses.
Object.assign(window.gpuboard, {
  bookWords, minuteLength, readSpan, stamp, readTimes, brief, overlaps, isOwn, spanText, clashText, bookCommand,
});
