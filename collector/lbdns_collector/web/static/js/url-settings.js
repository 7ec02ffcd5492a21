// The viewer's choices (pool, sorting, time range, ...), kept in the URL fragment: they survive a reload and can be shared.

const ANCHORS = new Set(["problems", "pools", "plots", "explain", "log"]);  // fragments that are links within the page, not settings

function parseFragment() {
  const fragment = location.hash.slice(1);
  return new URLSearchParams(ANCHORS.has(fragment) ? "" : fragment);
}

const settings = parseFragment();

// Only the viewer changes the fragment in a way that causes this event: by a link or in the address bar
addEventListener("hashchange", () => {
  if (!ANCHORS.has(location.hash.slice(1)) && location.hash.slice(1) !== String(settings)) location.reload();
});

export function readSetting(key, defaultValue) {
  return settings.get(key) ?? defaultValue;
}

/** Save a setting in the URL; an empty value removes it. */
export function saveSetting(key, value) {
  if (value === "" || value === null) settings.delete(key);
  else settings.set(key, value);
  history.replaceState(null, "", `#${settings}`);
}
