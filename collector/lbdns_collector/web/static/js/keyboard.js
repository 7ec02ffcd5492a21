// Keys that work on the whole page: "/" goes to the filter, the arrow keys move between members or events, Escape closes
// and clears what the viewer has opened and filtered, and "?" lists the keys.

const OPENERS = ".members .opener";
const OPENED = ".opener[aria-expanded=true]";
const FILTER = ".find input";

/** ``showHelp`` is called for "?". ``endZoom`` is called for an Escape that has nothing else to close. */
export function listenForKeys({ showHelp, endZoom }) {
  document.addEventListener("keydown", event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key, target } = event;
    if (target.closest("dialog") || target.matches("select, textarea")) return;  // they handle their keys themselves
    const isTyping = target.matches("input:not([type=checkbox], [type=radio])");
    if (key === "Escape") {
      closeOrClear(target, endZoom);
    } else if (key === "ArrowDown" || key === "ArrowUp") {
      const next = target.matches(FILTER) ? firstMember(target, key) : isTyping ? null : neighbour(target, key);
      if (!next) return;
      event.preventDefault();
      next.focus();
    } else if (key === "/" && !isTyping) {
      const filter = [...document.querySelectorAll(FILTER)].find(input => input.checkVisibility());
      if (!filter) return;
      event.preventDefault();
      filter.focus();
    } else if (key === "?" && !isTyping) {
      event.preventDefault();
      showHelp();
    }
  });
}

/** Close or clear what surrounds the focus; if there is no such thing, what comes first on the whole page. */
function closeOrClear(target, endZoom) {
  if (target.matches(FILTER)) {
    clearFilter(target);
    target.blur();
    return;
  }
  if (closeMenus(target)) return;
  const opener = memberRow(target)?.querySelector(OPENED);
  const event = target.closest(".events li");
  if (opener) {
    opener.click();
    opener.focus();
  } else if (event) event.parentElement.focus();
  else if (!clearFilters() && !closeMembers()) endZoom();
}

/** Close the menu around ``target``, otherwise all menus; return whether a menu was open. */
function closeMenus(target) {
  const own = target.closest("details[open]");
  const menus = own ? [own] : [...document.querySelectorAll(".chooser[open]")];
  for (const menu of menus) menu.open = false;
  own?.querySelector("summary").focus();
  return menus.length > 0;
}

function clearFilter(filter) {
  filter.value = "";
  filter.dispatchEvent(new Event("input"));
}

function clearFilters() {
  const filters = [...document.querySelectorAll(FILTER)].filter(({ value }) => value);
  filters.forEach(clearFilter);
  return filters.length > 0;
}

function closeMembers() {
  const openers = [...document.querySelectorAll(OPENED)];
  for (const opener of openers) opener.click();
  return openers.length > 0;
}

/** Return the row of the member whose row or details contain ``target``, or undefined. */
function memberRow(target) {
  const row = target.closest(".members tbody tr");
  return row?.matches(".details") ? row.previousElementSibling : row ?? undefined;
}

function firstMember(filter, key) {
  return key === "ArrowDown" ? filter.closest(".pool").querySelector(OPENERS) : null;
}

/** Return the member or event before or after the one with the focus, or null. */
function neighbour(target, key) {
  if (target.matches(".events")) return key === "ArrowDown" ? target.firstElementChild : null;
  const row = memberRow(target) ?? target.closest(".events li");
  if (!row) return null;
  const items = row.matches("li") ? [...row.parentElement.children] : [...document.querySelectorAll(OPENERS)];
  const at = items.findIndex(item => row.contains(item));
  return at < 0 ? null : items[at + (key === "ArrowDown" ? 1 : -1)] ?? null;
}
