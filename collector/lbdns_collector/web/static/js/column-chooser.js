// The menu that chooses the columns of the member tables. The browser keeps the choice.

import { make, makeLabel } from "./dom-elements.js";
import { COLUMNS } from "./member-columns.js";

const KEY = "lbdns.hidden-columns";  // in the local storage
const ALWAYS_SHOWN = "state";

/** The keys of the hidden columns, for all tables on the page. */
export const hiddenColumns = new Set(readHidden());
const choosers = new Set();

function readHidden() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter(key => COLUMNS.some(column => column.key === key && key !== ALWAYS_SHOWN)) : [];
  } catch {
    return [];  // the browser keeps nothing, or something else
  }
}

export class ColumnChooser {
  /** ``onChange`` is called after the viewer has chosen other columns in any chooser. */
  constructor(onChange) {
    this.onChange = onChange;
    this.boxes = COLUMNS.filter(({ key }) => key !== ALWAYS_SHOWN).map(({ key, title }) => {
      const box = make("input");
      box.type = "checkbox";
      box.dataset.column = key;
      box.addEventListener("change", () => choose(key, box.checked));
      return { key, box, label: makeLabel(title, box, "check") };
    });
    this.element = make("details", "chooser", make("summary", "", "Columns"), make("div", "menu", ...this.boxes.map(({ label }) => label)));
    choosers.add(this);
    this.update();
  }

  update() {
    for (const { key, box } of this.boxes) box.checked = !hiddenColumns.has(key);
  }
}

function choose(key, isShown) {
  if (isShown) hiddenColumns.delete(key);
  else hiddenColumns.add(key);
  try {
    localStorage.setItem(KEY, JSON.stringify([...hiddenColumns]));
  } catch {
    // The choice then lasts until the page is closed
  }
  for (const chooser of choosers) {
    chooser.update();
    chooser.onChange();
  }
}
