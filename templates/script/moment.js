// Times, read as the command reads them, by the viewer's clock. What cannot be read, or does
// not exist because clocks jump over it, is null.
const minuteLength = 60000;
const hourLength = 3600000;
const weekdays = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

// A length of time is a sum of weeks, days, hours and minutes, in this order.
const spanUnits = ["w|weeks?", "d|days?", "h|hours?", "m|min|minutes?"];
const spanPattern = new RegExp(
  "^\\+?\\s*" + spanUnits.map((unit) => "(?:(\\d{1,5}) *(?:" + unit + ") *)?").join("") + "$",
);

// A time of day: 18:00, 18h30 or 18h.
const clockForm = "(?<hour>\\d\\d?)(?:[:h](?<minute>\\d\\d)|h)";
const clockPattern = new RegExp("^" + clockForm + "$");

// A date: 2026-11-29, 29.11.2026, 29 November 2026 or Nov 29, 2026. It may have a time, which may
// have a zone.
const datePatterns = [
  "(?<year>\\d{4})-(?<month>\\d\\d?)-(?<day>\\d\\d?)",
  "(?<day>\\d\\d?)\\.(?<month>\\d\\d?)\\.(?<year>\\d{4})",
  "(?<day>\\d\\d?) +(?<month>[A-Za-z]{3,9}) +(?<year>\\d{4})",
  "(?<month>[A-Za-z]{3,9}) +(?<day>\\d\\d?),? +(?<year>\\d{4})",
].map((form) => new RegExp(
  "^" + form + "(?:(?: +|T)" + clockForm + "(?::(?<second>\\d\\d)(?:\\.\\d{1,9})?)?" +
    "(?: ?(?<zone>Z|UTC|[+-]\\d\\d:?\\d\\d))?)?$",
));
const months = "january february march april may june july august september october november december".split(" ");

// weekdayOf returns the number of a weekday by its name or the first three letters, or -1.
function weekdayOf(word) {
  return weekdays.findIndex((weekday) => word === weekday || word === weekday.slice(0, 3));
}

function addDays(date, days) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days);
}

// readTime reads a time of day as hours and minutes. 24:00 is the end of the day.
function readTime(text) {
  if (text === "noon") {
    return [12, 0];
  }
  const { hour, minute = "0" } = clockPattern.exec(text)?.groups ?? {};
  const exists = (hour < 24 && minute < 60) || (hour === "24" && Number(minute) === 0);
  return exists ? [Number(hour), Number(minute)] : null;
}

// atTime is the moment of a day at which clocks show a time. Where they show it twice, an end
// is the later one.
function atTime(day, [hours, minutes], isEnd) {
  if (hours === 24) {
    return atTime(addDays(day, 1), [0, 0], isEnd);
  }
  const first = new Date(day.getFullYear(), day.getMonth(), day.getDate(), hours, minutes);
  const second = new Date(first.getTime() + hourLength);
  const shown = (moment) => moment.getHours() === hours && moment.getMinutes() === minutes;
  if (!shown(first)) {
    return null;
  }
  return isEnd && shown(second) ? second : first;
}

// readSpan reads a length of time. Days are those of the calendar.
function readSpan(text) {
  const match = spanPattern.exec(text.trim().toLowerCase());
  if (!match) {
    return null;
  }
  const [weeks, days, hours, minutes] = match.slice(1).map((digits) => Number(digits ?? 0));
  const span = { days: 7 * weeks + days, ms: hourLength * hours + minuteLength * minutes };
  return (span.days || span.ms) && span.days <= 3660 ? span : null;
}

function addSpan(moment, span) {
  const date = new Date(moment);
  date.setDate(date.getDate() + span.days);
  return new Date(date.getTime() + span.ms);
}

// partsOf returns the parts of a date by name, and undefined for any other text.
function partsOf(text) {
  return datePatterns.map((pattern) => pattern.exec(text)?.groups).find((parts) => parts);
}

// readDate reads a moment that means the same whenever it is read.
function readDate(parts, isEnd) {
  const { year, day, hour, minute = "00", second, zone } = parts;
  const named = months.findIndex((name) => name.startsWith(parts.month.toLowerCase()));
  const month = named < 0 ? Number(parts.month) : named + 1;
  const date = new Date(year, month - 1, day);
  const time = hour ? readTime(hour + ":" + minute) : null;
  const ms = 1000 * (second ?? 0);
  const exists = date.getMonth() === month - 1 && date.getDate() === Number(day);
  if (!exists || year < 2000 || (hour && !time) || ms > 59000) {
    return null;
  }

  if (zone) {
    return new Date(Date.UTC(year, month - 1, day, ...time) - offsetOf(zone) + ms);
  }
  if (!time) {
    return isEnd ? addDays(date, 1) : date;
  }
  const moment = atTime(date, time, isEnd);
  return moment && new Date(moment.getTime() + ms);
}

// offsetOf is how far a zone such as +01:00 is ahead of UTC, in milliseconds.
function offsetOf(zone) {
  if (!/\d/.test(zone)) {
    return 0;
  }
  const minutes = 60 * zone.slice(1, 3) + Number(zone.slice(-2));
  return (zone.startsWith("-") ? -1 : 1) * minutes * minuteLength;
}

// readMoment reads a moment. A weekday or a time alone is the next one after begin.
function readMoment(text, begin, now, isEnd) {
  const trimmed = text.trim();
  const parts = partsOf(trimmed);
  if (parts) {
    return readDate(parts, isEnd);
  }
  const lower = trimmed.toLowerCase();
  if (lower === "now") {
    return now;
  }
  const span = readSpan(lower);
  if (span) {
    return addSpan(now, span);
  }
  const time = lower === "midnight" ? [0, 0] : readTime(lower);
  if (time) {
    const today = atTime(begin, time, isEnd);
    return today && today > begin ? today : atTime(addDays(begin, 1), time, isEnd);
  }
  return readDay(lower, begin, now, isEnd);
}

// readDay reads a weekday, today or tomorrow, which may have a time.
function readDay(text, begin, now, isEnd) {
  const [, word, clock] = /^([a-z]+)(?: +(.+))?$/.exec(text) ?? [];
  const weekday = weekdayOf(word);
  const time = clock ? readTime(clock) : null;
  if ((weekday < 0 && word !== "today" && word !== "tomorrow") || (clock && !time)) {
    return null;
  }
  const momentOf = (date) => time ? atTime(date, time, isEnd) : addDays(date, isEnd ? 1 : 0);

  if (weekday >= 0) {
    const date = addDays(begin, (weekday - begin.getDay() + 7) % 7);
    const moment = momentOf(date);
    return !moment || moment > begin ? moment : momentOf(addDays(date, 7));
  }
  const moment = momentOf(addDays(now, word === "tomorrow" ? 1 : 0));
  if (!moment || moment > now) {
    return moment;
  }
  return time ? null : now;
}

function startOfMinute(moment) {
  return new Date(minuteLength * Math.floor(moment / minuteLength));
}

// readFrom reads a beginning, which is not before this minute; without a text it is now.
function readFrom(text, now) {
  const moment = text.trim() ? readMoment(text, now, now, false) : startOfMinute(now);
  return moment && moment >= startOfMinute(now) ? moment : null;
}

// readUntil reads an end, which is after its beginning. What never ends ends at Infinity.
function readUntil(text, from, now) {
  if (text.trim().toLowerCase() === "never") {
    return Infinity;
  }
  const span = readSpan(text);
  const moment = span ? addSpan(from, span) : readMoment(text, from > now ? from : now, now, true);
  return moment && moment > now && moment > from && moment.getFullYear() < 2200 ? moment : null;
}
