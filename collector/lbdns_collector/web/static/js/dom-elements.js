// Helpers that create DOM elements, and setters that touch the DOM only if a value has changed.
// Text is always inserted as text, never as markup: a compromised host must not be able to inject scripts.

const lastValues = Symbol("the values set last, by key");

/** Return a new element with a class (or several) and with text or children. */
export function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Return a label element that contains its text, then its control. */
export function makeLabel(labelText, control, className = "") {
  return make("label", className, make("span", "", labelText), control);
}

/** Return an element that scrolls its wide content, with the keyboard too. */
export function makeScrollBox(label, content) {
  const box = make("div", "scroll", content);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}

export function makeSelect(options, value) {
  const control = make("select");
  setOptions(control, options, value);
  return control;
}

export function makeButton(buttonText, onClick, className = "") {
  const button = make("button", className, buttonText);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

/** Return a header cell for a table column. */
export function makeHeaderCell(title, className = "") {
  const cell = make("th", className, title);
  cell.scope = "col";
  return cell;
}

/** Report whether ``value`` differs from the one recorded for ``key``, and record it. */
function recordChange(node, key, value) {
  const known = node[lastValues] ??= {};
  if (known[key] === value) return false;
  known[key] = value;
  return true;
}

export function setText(node, value) {
  if (!recordChange(node, "text", value)) return;
  const { firstChild } = node;
  if (firstChild instanceof Text && firstChild === node.lastChild) firstChild.data = value;  // cheaper than a new node
  else node.textContent = value;
}

export function setAttribute(node, name, value) {
  if (!recordChange(node, `@${name}`, value)) return;
  if (value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

export function setClass(node, value) {
  if (recordChange(node, "class", value)) node.className = value;
}

/** Set a style property through the CSS object model: the content security policy forbids style attributes. */
export function setStyle(node, property, value) {
  if (recordChange(node, `:${property}`, value)) node.style.setProperty(property, value);
}

export function setHidden(node, isHidden) {
  if (recordChange(node, "hidden", isHidden)) node.hidden = isHidden;
}

/** Set the [value, text] options of a select element. The selection stays if it is among the new options. */
export function setOptions(control, options, value = control.value) {
  if (recordChange(control, "options", JSON.stringify(options))) {
    control.replaceChildren(...options.map(([key, optionText]) => new Option(optionText, key)));
  }
  if (options.some(([key]) => key === value)) control.value = value;
}

/** Make ``nodes`` the children of ``parent``, in this order. Nodes already in place aren't moved, so they keep the focus. */
export function setChildren(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const node of nodes) {
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
}

/** Set the entries [term, value, class, tooltip] of a description list, such as ["usable", "3 of 3"]; the last two are
 * optional. */
export function fillList(list, entries) {
  while (list.childElementCount < entries.length) list.append(make("div", "", make("dt"), make("dd")));
  while (list.childElementCount > entries.length) list.lastElementChild.remove();
  entries.forEach(([term, value, className = "", tooltip = null], i) => {
    const entry = list.children[i];
    setClass(entry, className);
    setAttribute(entry, "title", tooltip);
    setText(entry.firstChild, term);
    setText(entry.lastChild, value);
  });
}
