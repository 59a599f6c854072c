"use strict";
(() => {
  const said = document.getElementById("said");
  const oldWay = (words) => {
    const area = document.createElement("textarea");
    area.value = words;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    area.remove();
    return done;
  };
  const copied = async (words) => {
    try {
      await navigator.clipboard.writeText(words);
      return true;
    } catch {
      return oldWay(words);
    }
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const line = button.parentElement.querySelector("code");
      const done = await copied(line.textContent);
      if (!done) window.getSelection().selectAllChildren(line);
      button.focus();
      button.textContent = done ? "Copied" : "Press Ctrl-C";
      said.textContent = done ? "Copied" : "The line is selected: press Ctrl-C";
      setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
    });
  }
  for (const wide of document.querySelectorAll(".courses .wide")) wide.scrollLeft = wide.scrollWidth;
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });
})();
