// What stands beside the pointer. Each of tips says what that is for an event, or
// nothing.
var tips = [], tip = null;
// A cell that is cut says all of it.
tips.push(function (e) {
  var cell = e.target.closest(".map .w,.map .k,.us");
  return cell && cell.scrollWidth > cell.clientWidth + 1 && !cell.querySelector("[open]") ? Array.prototype.filter.call(cell.childNodes, function (n) { return n.tagName !== "DETAILS"; }).map(function (n) { return n.textContent; }).join(" ").replace(/\s+/g, " ").trim() : "";
});
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
