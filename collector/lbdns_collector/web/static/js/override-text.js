// The texts that describe an override: a short text for the badge, and a full text with author, time and reason.

import { formatNumber, formatTime } from "./value-format.js";

const KIND_TEXTS = { drain: "drained", up: "forced up", down: "forced down" };

export function overrideTitle({ kind, factor }) {
  return kind === "weight" ? `weight × ${formatNumber(factor, 2)}` : KIND_TEXTS[kind] ?? kind;
}

export function overrideDescription(override) {
  const { by, since, until, reason, origin, server } = override;
  return [
    overrideTitle(override), by && `by ${by}`, (origin || server) && `at ${origin || server}`, typeof since === "number" && `since ${formatTime(since)}`,
    typeof until === "number" ? `until ${formatTime(until)}` : "until removed", reason && `reason: ${reason}`,
  ].filter(Boolean).join(", ");
}
