// How figures, spans and moments are written: one way everywhere.

export const NOTHING = "–";

const formats = new Map();  // digits -> Intl.NumberFormat, which is slow to make
const clocks = {
  second: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  minute: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }),
  day: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }),
};

/** With so many digits after the point at most, or exactly. */
export function number(value, digits = 0, exactly = false) {
  if (typeof value !== "number" || !Number.isFinite(value)) return NOTHING;
  const key = exactly ? -1 - digits : digits;
  let format = formats.get(key);
  if (!format) {
    const least = exactly ? digits : 0;
    format = new Intl.NumberFormat("en", { minimumFractionDigits: least, maximumFractionDigits: digits });
    formats.set(key, format);
  }
  return format.format(value);
}

/** A rate or reading: three digits that count, no more. */
export function figure(value) {
  const size = Math.abs(value);
  return number(value, size >= 100 ? 0 : 1, size > 0 && size < 100 && !Number.isInteger(value));
}

/** For the little room beside an axis: 12k, 3.4M. */
export function brief(value) {
  const size = Math.abs(value);
  for (const [limit, suffix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return `${number(value / limit, size >= 10 * limit ? 0 : 1)}${suffix}`;
  }
  return number(value, 2);
}

export function percent(part, digits = 0) {
  return typeof part === "number" ? `${number(100 * part, digits, true)} %` : NOTHING;
}

export function bytes(value) {
  return typeof value === "number" ? `${number(value / 1e6, value < 1e7 ? 1 : 0)} MB` : NOTHING;
}

export function span(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return NOTHING;
  if (seconds < 9.95) return `${number(seconds, 1, true)} s`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${number(seconds / 60)} min`;
  return seconds < 172_800 ? `${number(seconds / 3600, 1)} h` : `${number(seconds / 86_400, 1)} d`;
}

export function plural(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** The time of day of Unix seconds, with the day if it isn't today. */
export function moment(unix) {
  const at = new Date(unix * 1000);
  const time = clocks.second.format(at);
  return at.toDateString() === new Date().toDateString() ? time : `${clocks.day.format(at)} ${time}`;
}

/** Labels of a time axis whose marks are ``step`` seconds apart. */
export function axisTime(unix, step) {
  const at = new Date(unix * 1000);
  if (step >= 86_400) return clocks.day.format(at);
  return step < 60 ? clocks.second.format(at) : clocks.minute.format(at);
}

/** A name of the zone as people say it: the owner "@" is the zone itself. */
export function fullName(owner, zone) {
  if (owner === "@" || !owner) return zone || ".";
  return zone && zone !== "." ? `${owner}.${zone}` : owner;
}
