// The top of the report: models, headline numbers, verdicts.

import { byId, el, svg, words } from "./dom.js";
import { counted, interval, number, signed } from "./format.js";
import { dot } from "./marks.js";

const KINDS = { arm: "autoregressive", mdm: "masked diffusion" };
const SIGNS = { supported: "✓", "too small": "≈", contradicted: "✕", undecided: "?" };

export function intro(root, report) {
  byId("answer").textContent = report.answer;
  const names = report.models.flatMap((model, i) => [i ? (i === report.models.length - 1 ? " and " : ", ") : "", words(model.label, { class: "name" })]);
  const { controls } = report.settings;
  const beside = controls ? `, and ${counted({ traces: controls }).join()} of controls (the same models with shuffled weights)` : "";
  root.append(`${new Intl.ListFormat("en").format(counted(report.settings))} of `, ...names, `${beside}.`);
  const tally = {};
  for (const claim of report.claims) tally[claim.verdict] = (tally[claim.verdict] ?? 0) + 1;
  const verdicts = Object.keys(SIGNS).filter((verdict) => tally[verdict]).map((verdict) => `${tally[verdict]} ${verdict}`);
  if (verdicts.length) root.append(` Of ${report.claims.length} verdicts on claims: ${verdicts.join(", ")}.`);
}

export function cards(root, report) {
  for (const model of report.models) {
    const facts = [KINDS[model.kind] ?? model.kind];
    if (model.layers && model.heads) facts.push(`${model.layers} layers × ${model.heads} heads`);
    facts.push(...counted({ traces: model.n, answers: model.answers, patched: model.patched }));
    root.append(el("li", {}, dot(model), el("div", {}, words(model.label, { class: "name" }), el("small", {}, facts.join(" · ")))));
  }
}

// Which run it is, where several of one kind are shown.
function ran(run) {
  return run ? el("span", { class: "ran" }, " in run ", words(run)) : null;
}

export function headline(root, report) {
  const head = el("tr", {}, el("th", { scope: "col" }, "Measured"));
  for (const model of report.models) head.append(el("th", { scope: "col", class: "number" }, dot(model), " ", words(model.label)));
  const body = report.headline.map((row) => {
    const title = el("th", { scope: "row" }, el("a", { href: `#${row.section}` }, words(row.title)), ran(row.run), el("small", {}, row.hint));
    const say = row.signed ? signed : (value) => number(value);
    const cells = report.models.map((model) => {
      const found = row.values[model.ref];
      const whose = el("span", { class: "whose" }, dot(model), " ", words(model.label)); // where there is no room for columns
      if (!found || found.mean === null) return el("td", { class: "number none" }, whose, "–");
      const span = found.low === null ? "" : `${interval(found.low, found.high, say)}, `;
      const more = `${span}n\u00a0=\u00a0${found.n}`;
      return el("td", { class: "number", "data-value": found.mean }, whose, el("strong", {}, say(found.mean)), el("small", {}, more));
    });
    return el("tr", {}, title, ...cells);
  });
  root.append(el("thead", {}, head), el("tbody", {}, ...body));
}

// The interval of a number beside the limit that decides; the claimed side is tinted, the opposite limit is a thin line.
function strip(claim) {
  const known = [claim.low ?? claim.mean, claim.high ?? claim.mean, claim.mean, claim.limit, claim.opposite].filter((x) => x !== null);
  if (claim.mean === null) return el("span", { class: "none" }, "not measured");
  let [least, most] = [Math.min(...known), Math.max(...known)];
  const pad = (most - least || Math.abs(most) || 1) * 0.18;
  [least, most] = [least - pad, most + pad];
  const x = (value) => 4 + ((value - least) / (most - least)) * 152;
  const limit = x(claim.limit);
  const side = claim.above ? { x: limit, width: 158 - limit } : { x: 2, width: limit - 2 };
  const made = svg("svg", { viewBox: "0 0 160 22", class: "strip", "aria-hidden": "true" });
  made.append(svg("rect", { ...side, y: 1, height: 20, rx: 2, class: "claimed" }));
  made.append(svg("line", { x1: limit, x2: limit, y1: 1, y2: 21, class: "limit" }));
  if (claim.opposite !== null) made.append(svg("line", { x1: x(claim.opposite), x2: x(claim.opposite), y1: 1, y2: 21, class: "opposite" }));
  if (claim.low !== null && claim.high !== null) {
    made.append(svg("line", { x1: x(claim.low), x2: x(claim.high), y1: 11, y2: 11, class: "span" }));
  }
  made.append(svg("circle", { cx: x(claim.mean), cy: 11, r: 4, class: "mean" }));
  return made;
}

function badge(verdict, ...more) {
  return el("span", { class: `badge ${verdict.replace(" ", "-")}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[verdict]} `), ...(more.length ? [el("span", { class: "unseen" }, `${verdict}: `), ...more] : [verdict]));
}

// One subject of a claim: its verdict, the number that decides, and what would change it.
function line(claim, models) {
  const model = models.get(claim.model);
  const about = el("p", { class: "subject" }, badge(claim.verdict), " ", model ? dot(model) : null, " ", words(model && claim.subject === claim.model ? model.label : claim.subject), ran(claim.run));
  const found = el("div", { class: "deciding" });
  if (claim.statistic) {
    const where = `${claim.above ? "above" : "below"} ${number(claim.limit)}`;
    found.append(strip(claim), el("small", {}, words(claim.statistic), ": ", el("strong", {}, number(claim.mean)), ` (${interval(claim.low, claim.high)}, n = ${claim.n}); claimed ${where}`));
  }
  const aside = [claim.models ? `models: ${claim.models}` : "", claim.survives === null ? "" : `survives Holm: ${claim.survives ? "yes" : "no"}`, claim.statistic ? claim.note : ""].filter(Boolean);
  if (aside.length) found.append(el("small", { class: "aside" }, words(aside.join(" · "))));
  const parts = claim.parts.length > 1 ? el("ul", {}, ...claim.parts.map((part) => el("li", {}, words(part)))) : null;
  const more = el("details", {}, el("summary", {}, claim.statistic ? "What would change it" : "Why it is not judged"), el("p", {}, words(claim.changes)), parts);
  return el("div", { class: "finding", "data-claim": claim.id, "data-verdict": claim.verdict }, about, found, more);
}

// Claims in their order, each with a sign for every model or comparison; opened, with the numbers.
export function claims(root, report) {
  const models = new Map(report.models.map((model) => [model.ref, model]));
  const groups = new Map();
  for (const claim of report.claims) {
    const key = `${claim.id} ${claim.statement}`;
    groups.set(key, [...(groups.get(key) ?? []), claim]);
  }
  for (const group of groups.values()) {
    const [{ id, statement, figure }] = group;
    const signs = group.map((claim) => (models.has(claim.model) ? badge(claim.verdict, words(models.get(claim.model).label)) : badge(claim.verdict)));
    const head = el("summary", {}, el("span", { class: "statement" }, capital(statement)), el("span", { class: "signs" }, ...signs));
    const see = figure ? el("p", { class: "see" }, el("a", { href: `#figure-${figure}` }, "See the figure")) : null;
    root.append(el("details", { class: "claim", "data-group": id }, head, el("div", { class: "findings" }, ...group.map((claim) => line(claim, models))), see));
  }
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
