// Making elements, and changing them only where something changed. Text goes in as text, never as markup: a host
// that was broken into must not write script here.

const shown = Symbol("what was set last");

/** An element with a class (or classes), a text or children. */
export function make(tag, className = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** A text field, checkbox or select inside its label, whose words stand before it. */
export function labelled(words, control, className = "") {
  return make("label", className, make("span", "", words), control);
}

export function select(options, value) {
  const made = make("select");
  fill(made, options, value);
  return made;
}

/** Give a select these [value, text] options, keeping what is chosen where it is still there. */
export function fill(control, options, value = control.value) {
  if (once(control, "options", JSON.stringify(options))) {
    control.replaceChildren(...options.map(([key, words]) => new Option(words, key)));
  }
  if (options.some(([key]) => key === value)) control.value = value;
}

export function button(words, onClick, className = "") {
  const made = make("button", className, words);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

/** Table header cells get their scope, data cells the name of their column, which small screens show. */
export function headCell(words, className = "") {
  const made = make("th", className, words);
  made.scope = "col";
  return made;
}

function once(node, key, value) {
  const known = node[shown] ??= {};
  if (known[key] === value) return false;
  known[key] = value;
  return true;
}

export function text(node, value) {
  if (!once(node, "text", value)) return;
  const { firstChild } = node;
  if (firstChild instanceof Text && firstChild === node.lastChild) firstChild.data = value;  // cheaper than another node
  else node.textContent = value;
}

export function attribute(node, name, value) {
  if (!once(node, `@${name}`, value)) return;
  if (value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

export function className(node, value) {
  if (once(node, "class", value)) node.className = value;
}

/** A style property by the object model, which a content security policy of 'self' permits. */
export function style(node, property, value) {
  if (once(node, `:${property}`, value)) node.style.setProperty(property, value);
}

export function hide(node, hidden) {
  if (once(node, "hidden", hidden)) node.hidden = hidden;
}

/** Have ``nodes`` be the children of ``parent`` in this order. What is in its place isn't touched: it keeps the focus. */
export function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let place = parent.firstElementChild;
  for (const node of nodes) {
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
}

/** A list of <dt>, <dd> in <div>s that is filled again and again: figures([["usable", "3 of 3"], ...]). */
export function figures(list, pairs) {
  while (list.childElementCount < pairs.length) list.append(make("div", "", make("dt"), make("dd")));
  while (list.childElementCount > pairs.length) list.lastElementChild.remove();
  pairs.forEach(([what, value, kind = "", title = null], i) => {
    const box = list.children[i];
    className(box, kind);
    attribute(box, "title", title);
    text(box.firstChild, what);
    text(box.lastChild, value);
  });
}
