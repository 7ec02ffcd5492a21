// Keys that work on the whole page: "/" goes to the filter, the arrow keys move between members, and Escape closes the
// open members or clears the filter.

const OPENERS = ".members .opener";

export function listenForKeys() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea");
    if (event.key === "/" && !isTyping) {
      const filter = [...document.querySelectorAll(".find input")].find(input => input.checkVisibility());
      if (!filter) return;
      event.preventDefault();
      filter.focus();
    } else if (event.key === "Escape") {
      closeOrClear(event.target);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !isTyping) {
      moveBetweenMembers(event);
    }
  });
}

function closeOrClear(target) {
  if (target.matches(".find input")) {
    target.value = "";
    target.dispatchEvent(new Event("input"));
    target.blur();
    return;
  }
  const menu = target.closest("details[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  const row = target.closest(".members tr");
  const opened = row?.querySelector(".opener[aria-expanded=true]");
  if (opened) opened.click();
  else if (row) for (const opener of row.closest("table").querySelectorAll(".opener[aria-expanded=true]")) opener.click();
}

function moveBetweenMembers(event) {
  const openers = [...document.querySelectorAll(OPENERS)];
  const row = event.target.closest(".members tbody tr");
  if (!row || !openers.length) return;
  const at = openers.findIndex(opener => row.contains(opener));
  const next = openers[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (at < 0 || !next) return;
  event.preventDefault();
  next.focus();
}
