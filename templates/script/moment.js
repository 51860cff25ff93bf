// Times, read as the command reads them, by the viewer's clock. What cannot be read,
// or does not exist because clocks jump over it, is null.
var weekdays = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
var dayOf = function (word) {
  for (var i = 0; i < 7; i++) { if (word === weekdays[i] || word === weekdays[i].slice(0, 3)) { return i; } }
  return -1;
};
// at is a time of day; of two moments at which clocks show it, an end is the later one.
// Without a time it is the beginning of the day.
var at = function (date, time, end) {
  var t = new Date(date.getFullYear(), date.getMonth(), date.getDate(), time ? time[0] : 0, time ? time[1] : 0), again = new Date(t.getTime() + 3600000);
  if (time && (t.getHours() !== time[0] || t.getMinutes() !== time[1])) { return null; }
  return time && end && again.getHours() === time[0] && again.getMinutes() === time[1] ? again : t;
};
var plus = function (date, days) { return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days); };
var timeOf = function (text) {
  var m = /^(\d\d?):(\d\d)$/.exec(text);
  if (text === "noon") { return [12, 0]; }
  return m && m[1] < 24 && m[2] < 60 ? [+m[1], +m[2]] : null;
};
// readSpan reads a length of time. Days are those of the calendar.
var readSpan = function (text) {
  var m = /^\+?\s*(?:(\d{1,5}) *(?:w|weeks?) *)?(?:(\d{1,5}) *(?:d|days?) *)?(?:(\d{1,5}) *(?:h|hours?) *)?(?:(\d{1,5}) *(?:m|min|minutes?))?$/.exec(text.trim().toLowerCase());
  var span = m && { days: 7 * (m[1] || 0) + +(m[2] || 0), ms: 3600000 * (m[3] || 0) + 60000 * (m[4] || 0) };
  return span && (span.days || span.ms) && span.days <= 3660 ? span : null;
};
var later = function (from, span) {
  var d = new Date(from);
  d.setDate(d.getDate() + span.days);
  return new Date(d.getTime() + span.ms);
};
// readDate reads a moment that means the same whenever it is read.
var readDate = function (text, end) {
  var m = /^(\d{4})-(\d\d?)-(\d\d?)(?:(?: +|T)(\d\d?):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?)?$/.exec(text), n = /^(\d\d?)\.(\d\d?)\.(\d{4})(?: +(\d\d?):(\d\d)(?::(\d\d))?)?$/.exec(text);
  m = m || n && [n[0], n[3], n[2], n[1], n[4], n[5], n[6]];
  if (!m) { return null; }
  var date = new Date(m[1], m[2] - 1, m[3]), time = m[4] && timeOf(m[4] + ":" + m[5]), ms = 1000 * (m[6] || 0), zone = m[7], t;
  if (date.getMonth() !== m[2] - 1 || date.getDate() !== +m[3] || m[1] < 2000 || (m[4] && !time) || ms > 59000) { return null; }
  if (!zone) {
    t = m[4] ? at(date, time, end) : end ? plus(date, 1) : date;
    return t && new Date(+t + ms);
  }
  var minutes = /\d/.test(zone) ? +(zone[0] + "1") * (60 * zone.slice(1, 3) + +zone.slice(-2)) : 0;
  return new Date(Date.UTC(m[1], m[2] - 1, m[3], time[0], time[1]) - 60000 * minutes + ms);
};
// readMoment reads a moment. A weekday or a time alone is the next one after begin.
var readMoment = function (text, begin, now, end) {
  text = text.trim();
  if (/^\d+[-.]\d+[-.]\d/.test(text)) { return readDate(text, end); }
  text = text.toLowerCase();
  var span = readSpan(text), time = text === "midnight" ? [0, 0] : timeOf(text), m = /^([a-z]+)(?: +(.+))?$/.exec(text), t;
  if (span) { return later(now, span); }
  if (text === "now") { return now; }
  if (time) {
    t = at(begin, time, end);
    return t && t > begin ? t : at(plus(begin, 1), time, end);
  }
  var day = m ? dayOf(m[1]) : -1;
  if (!m || (day < 0 && m[1] !== "today" && m[1] !== "tomorrow") || (m[2] && !(time = timeOf(m[2])))) { return null; }
  var date = day >= 0 ? plus(begin, (day - begin.getDay() + 7) % 7) : plus(now, m[1] === "tomorrow" ? 1 : 0);
  var find = function (d) { return time ? at(d, time, end) : plus(d, end ? 1 : 0); };
  t = find(date);
  if (!t || t > (day >= 0 ? begin : now)) { return t; }
  return day >= 0 ? find(plus(date, 7)) : time ? null : now;
};
var minute = function (t) { return new Date(60000 * Math.floor(t / 60000)); };
var readFrom = function (text, now) {
  var t = text.trim() ? readMoment(text, now, now, false) : minute(now);
  return t && t >= minute(now) ? t : null;
};
// readUntil reads an end, which is after its beginning. What never ends ends at Infinity.
var readUntil = function (text, from, now) {
  var span = readSpan(text);
  if (text.trim() === "never") { return Infinity; }
  var t = span ? later(from, span) : readMoment(text, from > now ? from : now, now, true);
  return t && t > now && t > from && t.getFullYear() < 2200 ? t : null;
};
// What is typed and shown.
var shell = function (s) { return /^[\w.@%+=:,\/-]+$/.test(s) ? s : "'" + s.replace(/'/g, "'\\''") + "'"; };
var two = function (n) { return (n < 10 ? "0" : "") + n; };
// The viewer's own time with its offset means the same in every zone.
var stamp = function (d) {
  var off = -d.getTimezoneOffset(), abs = Math.abs(off);
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" + two(d.getMinutes()) +
    (d.getSeconds() ? ":" + two(d.getSeconds()) : "") + (off < 0 ? "-" : "+") + two(Math.floor(abs / 60)) + ":" + two(abs % 60);
};
var brief = function (t) {
  return new Date(t).toLocaleString(document.documentElement.lang, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
};
// exact is what was typed, as it means the same everywhere: a length of time as it is.
var exact = function (text, t) { return !text.trim() || readSpan(text) || !(t instanceof Date) ? text.trim() : stamp(t); };
// flagsOf are the flags that a command takes for what stands in the fields.
var flagsOf = function (w, from, until, noname) {
  var flags = [], add = function (flag, value) { if (value) { flags.push("--" + flag, shell(value)); } };
  add("from", exact(w.from, from));
  add(readSpan(w.until) ? "for" : "until", exact(w.until, until));
  add("name", w.name.trim() || noname);
  add("comment", w.comment.trim());
  return flags.join(" ");
};
