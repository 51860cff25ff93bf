// What stands beside the pointer. Each of tips says what that is for an event, or
// nothing.
var tips = [], tip = null;
doc.addEventListener("pointermove", function (e) {
  var text = "";
  if (e.target.closest) { tips.forEach(function (of) { text = text || of(e); }); }
  if (!text) { if (tip) { tip.hidden = true; } return; }
  tip = tip || doc.body.appendChild(make("p", "tip"));
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(innerWidth - tip.offsetWidth - 4, e.clientX + 12)) + "px";
  tip.style.top = Math.max(4, e.clientY - 36) + "px";
});
