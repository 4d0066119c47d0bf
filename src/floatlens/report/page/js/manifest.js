// The end of the report: every run with what it was asked for, to read and to take away.

import { download, el, words } from "./dom.js";
import { counted } from "./format.js";

export function manifests(root, report) {
  root.append(entry("This report", [`floatlens ${report.made.floatlens}`], report.made, "report"));
  for (const run of report.runs) {
    const counts = Object.entries(run.outcomes ?? {}).map(([status, count]) => `${count} ${status}`);
    const facts = [...counted(run), ...counts, `from ${run.source}`];
    root.append(entry(run.name, facts, run.manifest, run.name, run.path));
  }
}

function entry(name, facts, manifest, file, path = null) {
  const whole = JSON.stringify(manifest, null, 2);
  const save = el("button", { type: "button", class: "quiet", on: { click: () => download(`${file}-manifest.json`, "application/json", whole) } }, "Download");
  return el("details", { class: "run" },
    el("summary", {}, words(name, { class: "name" }), el("small", {}, ` ${facts.join(" · ")}`)),
    el("p", {}, ...(path === null ? [] : ["Folder: ", el("code", {}, words(path)), " "]), save),
    el("pre", { tabindex: "0", role: "region", "aria-label": `Manifest: ${name}` }, whole));
}

export function definitions(root, sections) {
  for (const section of sections) {
    const holder = root.querySelector(`[data-definition="${CSS.escape(section.id)}"]`);
    const { summary, terms, used } = section.definition;
    const pairs = (list) => list.flatMap(([term, meaning]) => [el("dt", {}, words(term)), el("dd", {}, words(meaning))]);
    holder.append(el("p", {}, summary));
    if (section.run) named(root, section);
    if (terms.length) holder.append(el("dl", { class: "terms" }, ...pairs(terms)));
    holder.append(el("h3", {}, "Used here"), el("dl", { class: "used" }, ...pairs(used)));
  }
}

// Several runs of one kind are told apart by their names, in their sections and in the list of sections.
function named(root, { id, run }) {
  const place = root.querySelector(`[data-run="${CSS.escape(id)}"]`);
  place.append("Run ", words(run, { class: "name" }));
  place.hidden = false;
  root.querySelector(`nav.top a[href="#${CSS.escape(id)}"]`).append(" ", words(run));
}
