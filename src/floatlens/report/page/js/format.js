// Numbers as people read them.

export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(digits - 1).replace("-", "−");
  if (Number.isInteger(value)) return String(value).replace("-", "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

export function percent(share, digits = 3) {
  if (share === null || Number.isNaN(share)) return "–";
  if (share === 0) return "< 0.0001 %";
  return `${Number((100 * share).toPrecision(digits))} %`;
}

// What there is, without what there is none of: 3 traces, 1 answer.
export function counted({ traces, answers, patched }) {
  const all = [[traces, "trace"], [answers, "answer"], [patched, "patched question"]];
  const known = all.filter(([n]) => n).map(([n, what]) => `${n} ${what}${n === 1 ? "" : "s"}`);
  return known.length ? known : ["nothing done"];
}

// Differences have a sign.
export function signed(value) {
  return value > 0 ? `+${number(value)}` : number(value);
}

export function interval(low, high, say = number) {
  return low === null || high === null ? "no interval" : `${say(low)} to ${say(high)}`;
}

// A token on one line: white space by its signs, marks of word pieces off, what cannot be seen as a replacement sign.
export function piece(text) {
  const bare = text.replace(/\u010a/g, "\n").replace(/^[\u0120\u2581 ]+/, "") || "␣";
  return bare
    .replace(/\r/g, "")
    .replace(/\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/[\u0120\u2581]/g, "␣")
    .replace(/[\p{Cc}\p{Cs}\p{Co}\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u2028\u2029\u00ad]/gu, "\ufffd");
}
