// The end of the report: every run with what it was asked for, to read and to take away.

import { download, el, words } from "./dom.js";

export function manifests(root, report) {
  for (const run of report.runs) {
    const whole = JSON.stringify(run.manifest, null, 2);
    const counts = Object.entries(run.outcomes ?? {}).map(([status, count]) => `${count} ${status}`);
    const [n, what] = run.traces === undefined ? [run.answers, "answer"] : [run.traces, "trace"];
    const facts = [`${n} ${what}${n === 1 ? "" : "s"}`, ...counts, `from ${run.source}`];
    const save = () => download(`${run.name}-manifest.json`, "application/json", whole);
    root.append(
      el("details", { class: "run" },
        el("summary", {}, words(run.name, { class: "name" }), el("small", {}, ` ${facts.join(" · ")}`)),
        el("p", {}, "Folder: ", el("code", {}, words(run.path)), " ", el("button", { type: "button", class: "quiet", on: { click: save } }, "Download")),
        el("pre", { tabindex: "0", role: "region", "aria-label": "Manifest" }, whole)),
    );
  }
}

export function definitions(root, sections) {
  for (const section of sections) {
    const holder = root.querySelector(`[data-definition="${CSS.escape(section.id)}"]`);
    const { summary, terms, used } = section.definition;
    const pairs = (list) => list.flatMap(([term, meaning]) => [el("dt", {}, words(term)), el("dd", {}, words(meaning))]);
    holder.append(el("p", {}, summary));
    const rests = root.querySelector(`[data-rests="${CSS.escape(section.id)}"]`);
    const brief = used.filter(([term]) => term === "anchor rule" || term === "queries" || term === "normalisation" || term.startsWith("n, "));
    brief.forEach(([term, meaning], i) => rests.append(i ? " · " : "", el("span", { class: "term" }, words(term)), " ", words(meaning)));
    const several = sections.filter((one) => one.title === section.title).length > 1;
    const run = root.querySelector(`[data-run="${CSS.escape(section.id)}"]`);
    run.hidden = !several;
    if (several) run.append("Run ", words(section.run, { class: "name" }));
    if (terms.length) holder.append(el("dl", { class: "terms" }, ...pairs(terms)));
    holder.append(el("h4", {}, "Used here"), el("dl", { class: "used" }, ...pairs(used)));
  }
}
