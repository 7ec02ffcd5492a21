// Formats values for the page: numbers, rates, percentages, durations, times of day, domain names.

export const NO_VALUE = "–";
const VERY_LARGE = 1e15;  // a member can report 300 digits, which must not widen the table for all others

const numberFormats = new Map();  // digits -> Intl.NumberFormat, which is slow to create
const timeFormats = {
  second: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  minute: new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" }),
  day: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }),
};

/** Format a number with at most ``digits`` decimal places, or with exactly that many. */
export function formatNumber(value, digits = 0, isExact = false) {
  if (typeof value !== "number" || !Number.isFinite(value)) return NO_VALUE;
  if (Math.abs(value) >= VERY_LARGE) return value.toExponential(0);
  const key = isExact ? -1 - digits : digits;
  let format = numberFormats.get(key);
  if (!format) {
    const minimum = isExact ? digits : 0;
    format = new Intl.NumberFormat("en", { minimumFractionDigits: minimum, maximumFractionDigits: digits });
    numberFormats.set(key, format);
  }
  return format.format(value);
}

/** Format a rate or a reading: integers unchanged, other values below 100 with one decimal place. */
export function formatReading(value) {
  const size = Math.abs(value);
  return formatNumber(value, size >= 100 ? 0 : 1, size > 0 && size < 100 && !Number.isInteger(value));
}

/** Format a label for a vertical axis, where space is short: 12k, 3.4M. */
export function formatAxisValue(value) {
  const size = Math.abs(value);
  for (const [limit, suffix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return `${formatNumber(value / limit, size >= 10 * limit ? 0 : 1)}${suffix}`;
  }
  return formatNumber(value, 2);
}

/** Format a fraction (0 to 1) as a percentage. */
export function formatPercent(fraction, digits = 0) {
  return typeof fraction === "number" ? `${formatNumber(100 * fraction, digits, true)} %` : NO_VALUE;
}

export function formatDuration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return NO_VALUE;
  if (seconds < 9.95) return `${formatNumber(seconds, 1, true)} s`;
  if (seconds < 120) return `${formatNumber(seconds)} s`;
  if (seconds < 7200) return `${formatNumber(seconds / 60)} min`;
  return seconds < 172_800 ? `${formatNumber(seconds / 3600, 1)} h` : `${formatNumber(seconds / 86_400, 1)} d`;
}

export function pluralize(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Format Unix seconds as a time of day, preceded by the date unless it is today. */
export function formatTime(unixSeconds) {
  const date = new Date(unixSeconds * 1000);
  const time = timeFormats.second.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${timeFormats.day.format(date)} ${time}`;
}

/** Format a label for a time axis whose labels are ``step`` seconds apart. */
export function formatAxisTime(unixSeconds, step) {
  const date = new Date(unixSeconds * 1000);
  if (step >= 86_400) return timeFormats.day.format(date);
  return step < 60 ? timeFormats.second.format(date) : timeFormats.minute.format(date);
}

/** Return the domain name of an owner name in a zone; the owner "@" is the zone itself. */
export function domainName(owner, zone) {
  if (owner === "@" || !owner) return zone || ".";
  return zone && zone !== "." ? `${owner}.${zone}` : owner;
}
