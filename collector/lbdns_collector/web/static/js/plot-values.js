// Calculations with the values of plots: averages, sums and stacks. Pure functions; a missing value is null.

const EVENTS_PER_AVERAGE = 10;  // a rate counts events; with fewer in an average, most of what a plot shows is chance
const WINDOWS = [2, 5, 10, 15, 30, 60];  // seconds
const WINDOWS_PER_PLOT = 20;  // at least; longer averages would hide what happened

const isNumber = value => value !== null && value !== undefined;

/** Return the means {times, series} of values that fall into the same interval of ``step`` seconds. */
export function averageByStep({ times, series }, step) {
  if (step <= 1 || !times.length) return { times, series };
  const slots = [];
  const starts = [];
  for (const time of times) {
    const start = Math.floor(time / step) * step;
    if (starts.at(-1) !== start) starts.push(start);
    slots.push(starts.length - 1);
  }
  const averaged = {};
  for (const name in series) {
    const [sums, counts] = [starts.map(() => 0), starts.map(() => 0)];
    series[name].forEach((value, i) => {
      if (!isNumber(value)) return;
      sums[slots[i]] += value;
      counts[slots[i]] += 1;
    });
    averaged[name] = sums.map((sum, i) => (counts[i] ? sum / counts[i] : null));
  }
  return { times: starts, series: averaged };
}

/** Return the number of seconds over which rates should be averaged so that single events don't look like peaks, or 0. */
export function smoothingWindow(lines, step, span) {
  const means = lines.map(mean).filter(rate => rate > 0);
  if (!means.length) return 0;
  const wanted = EVENTS_PER_AVERAGE / (means.reduce((sum, rate) => sum + rate, 0) / means.length);
  if (wanted < WINDOWS[0] * step) return 0;
  const longest = span / WINDOWS_PER_PLOT;
  const window = WINDOWS.findLast(seconds => seconds <= longest && seconds <= 1.5 * wanted) ?? 0;
  return window > step ? window : 0;
}

function mean(values) {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : 0;
}

/** Return the moving average of ``values`` over ``window`` seconds. The last values are averaged over the past alone. */
export function smooth(times, values, window) {
  let [begin, end, sum, count] = [0, 0, 0, 0];
  const newest = times.at(-1);
  return values.map((value, i) => {
    const last = Math.min(times[i] + window / 2, newest);
    for (; end < times.length && times[end] <= last; end += 1) {
      if (isNumber(values[end])) [sum, count] = [sum + values[end], count + 1];
    }
    for (; times[begin] <= last - window; begin += 1) {
      if (isNumber(values[begin])) [sum, count] = [sum - values[begin], count - 1];
    }
    return isNumber(value) && count ? Math.max(0, sum / count) : null;
  });
}

/** Return the lines stacked: each has the sum of its own values and those of all lines before it. */
export function stack(lines) {
  let sums = null;
  const isKnown = lines[0]?.map((_, i) => lines.some(values => isNumber(values[i])));
  return lines.map(values => {
    sums = values.map((value, i) => (sums?.[i] ?? 0) + (value ?? 0));
    return sums.map((sum, i) => (isKnown[i] ? sum : null));
  });
}

/** Return the summary of several members' values, in the format of the server: {sum} or {mean, lowest, highest}. */
export function summarize(times, lines, isSum) {
  const summary = isSum ? { sum: [] } : { mean: [], lowest: [], highest: [] };
  for (let i = 0; i < times.length; i += 1) {
    let [sum, count, lowest, highest] = [0, 0, Infinity, -Infinity];
    for (const values of lines) {
      const value = values[i];
      if (!isNumber(value)) continue;
      sum += value;
      count += 1;
      if (value < lowest) lowest = value;
      if (value > highest) highest = value;
    }
    const found = { sum, mean: sum / count, lowest, highest };
    for (const key in summary) summary[key].push(count ? found[key] : null);
  }
  return summary;
}

/** Return ``first`` followed by ``second``, with nulls in place of a missing part. */
export function concatenate(first, firstLength, second, secondLength) {
  const nulls = length => new Array(length).fill(null);
  return [...(first ?? nulls(firstLength)), ...(second ?? nulls(secondLength))];
}
