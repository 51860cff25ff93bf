// Copying.
var copy = function (code, done) {
  var select = function () { getSelection().selectAllChildren(code); };
  if (navigator.clipboard && window.isSecureContext) {
    navigator.clipboard.writeText(code.textContent).then(done, select);
  } else {
    select();
    if (doc.execCommand("copy")) { done(); }
  }
};
// A button is called after what it copies, which may change.
var called = function (code) {
  if (code.nextSibling) { code.nextSibling.setAttribute("aria-label", W.copy + " " + code.textContent); }
};
var copies = function () {
  all("code.copy").forEach(function (code) {
    if (code.parentNode.classList.contains("line")) { return; }
    var line = make("span", "line"), button = make("button", "cpy", W.copy);
    button.type = "button";
    code.parentNode.replaceChild(line, code);
    line.appendChild(code);
    line.appendChild(button);
    called(code);
    button.addEventListener("click", function () {
      copy(code, function () {
        button.textContent = W.copied;
        button.classList.add("ok");
        setTimeout(function () { button.textContent = W.copy; button.classList.remove("ok"); }, 1600);
      });
    });
  });
};
