// Copying: a button beside everything that is there to be copied.
const copiedShown = 1600; // ms

// copyText copies an element's text, and calls done when it has.
function copyText(element, done) {
  const select = () => getSelection().selectAllChildren(element);
  if (navigator.clipboard && window.isSecureContext) {
    navigator.clipboard.writeText(element.textContent).then(done, select);
    return;
  }
  select();
  if (document.execCommand("copy")) {
    done();
  }
}

// labelCopyButton names the button after what it copies, which may change.
function labelCopyButton(code) {
  code.nextElementSibling?.setAttribute("aria-label", words.copy + " " + code.textContent);
}

function addCopyButtons() {
  for (const code of findAll("code.copy")) {
    if (!code.parentNode.classList.contains("line")) {
      addCopyButton(code);
    }
  }
}

function addCopyButton(code) {
  const line = makeElement("span", "line");
  const button = makeButton("copy-button", words.copy, () => {
    copyText(code, () => {
      button.textContent = words.copied;
      button.classList.add("ok");
      setTimeout(() => {
        button.textContent = words.copy;
        button.classList.remove("ok");
      }, copiedShown);
    });
  });
  code.replaceWith(line);
  line.append(code, button);
  labelCopyButton(code);
}
