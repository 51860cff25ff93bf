// Times, written as the command and the booking form read them.
const twoDigits = (number) => String(number).padStart(2, "0");

// stamp is the viewer's own time with its offset, which means the same in every zone.
function stamp(date) {
  const offset = -date.getTimezoneOffset(); // minutes ahead of UTC
  const zone = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  const clock = [date.getHours(), date.getMinutes()];
  if (date.getSeconds()) {
    clock.push(date.getSeconds());
  }
  return day.map(twoDigits).join("-") + " " + clock.map(twoDigits).join(":") +
    (offset < 0 ? "-" : "+") + zone.map(twoDigits).join(":");
}
