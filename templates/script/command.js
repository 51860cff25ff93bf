// The command that books what is typed. The command reads the times, and chooses.
const { fill, now } = window.gpuboard;

// quote is a text as one word of a shell.
function quote(text) {
  return /^[\w.@%+=:,/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

// bookCommand is the command with these places and flags, or another one that knows them. A flag that is true has no
// value, and one that is empty is left out.
function bookCommand(program, places, flags, name = "book") {
  const typed = Object.entries(flags).filter(([, value]) => value);
  return [
    program,
    name,
    ...places.map(quote),
    ...typed.map(([flag, value]) => "--" + flag + (value === true ? "" : " " + quote(value))),
  ].join(" ");
}

// What the script of the page for several GPUs uses.
Object.assign(window.gpuboard, { bookWords, bookCommand, addPicker });
