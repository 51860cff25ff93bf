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

// 2026-11-29 18:00:30 +01:00, of which only the date is required.
const isoPattern = new RegExp(
  "^(?<year>\\d{4})-(?<month>\\d\\d?)-(?<day>\\d\\d?)" +
    "(?:(?: +|T)(?<hour>\\d\\d?):(?<minute>\\d\\d)(?::(?<second>\\d\\d)(?:\\.\\d{1,9})?)?" +
    "(?: ?(?<zone>Z|UTC|[+-]\\d\\d:?\\d\\d))?)?$",
);

// 29.11.2026 18:00:30
const dottedPattern = new RegExp(
  "^(?<day>\\d\\d?)\\.(?<month>\\d\\d?)\\.(?<year>\\d{4})" +
    "(?: +(?<hour>\\d\\d?):(?<minute>\\d\\d)(?::(?<second>\\d\\d))?)?$",
);

// weekdayOf returns the number of a weekday by its name or the first three letters, or -1.
function weekdayOf(word) {
  return weekdays.findIndex((weekday) => word === weekday || word === weekday.slice(0, 3));
}

function addDays(date, days) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days);
}

// readTime reads a time of day as hours and minutes.
function readTime(text) {
  if (text === "noon") {
    return [12, 0];
  }
  const match = /^(\d\d?):(\d\d)$/.exec(text);
  return match && match[1] < 24 && match[2] < 60 ? [Number(match[1]), Number(match[2])] : null;
}

// atTime is the moment of a day at which clocks show a time. Where they show it twice, an end
// is the later one.
function atTime(day, [hours, minutes], isEnd) {
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

// readDate reads a moment that means the same whenever it is read.
function readDate(text, isEnd) {
  const parts = (isoPattern.exec(text) ?? dottedPattern.exec(text))?.groups;
  if (!parts) {
    return null;
  }
  const { year, month, day, hour, minute, second, zone } = parts;
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
  if (/^\d+[-.]\d+[-.]\d/.test(trimmed)) {
    return readDate(trimmed, isEnd);
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
  if (text.trim() === "never") {
    return Infinity;
  }
  const span = readSpan(text);
  const moment = span ? addSpan(from, span) : readMoment(text, from > now ? from : now, now, true);
  return moment && moment > now && moment > from && moment.getFullYear() < 2200 ? moment : null;
}
