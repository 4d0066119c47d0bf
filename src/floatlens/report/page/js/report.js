// The whole report: what is found at the top, sections with figures and tables, the explorer, the manifests.

import { figures, startDrawing } from "./charts.js";
import { json } from "./codec.js";
import { byId, el, words } from "./dom.js";
import { Explorer, sayFailed } from "./explorer.js";
import { cards, claims, headline, intro } from "./findings.js";
import { definitions, manifests } from "./manifest.js";
import { tables } from "./tables.js";
import { startTheme } from "./theme.js";

const report = json("report");
document.title = `floatlens: ${report.models.map((model) => model.label).join(", ")}`;
startTheme(byId("theme"));
const nav = document.querySelector("nav.top");
new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${nav.offsetHeight}px`)).observe(nav);
intro(byId("intro"), report);
cards(byId("models"), report);
headline(byId("headline"), report);
claims(byId("claim-rows"), report);
byId("no-claims").hidden = report.claims.length > 0;
const waiting = figures(document, report.sections);
definitions(document, report.sections);
tables(document);
manifests(byId("manifests"), report);
for (const [name, reason] of report.skipped) {
  byId("skipped").append(el("li", {}, words(name, { class: "name" }), ": ", words(reason)));
}
byId("left-out").hidden = !report.skipped.length;
byId("numbers").hidden = !report.headline.length;
// On paper nothing can be opened: what a reader needs to trust the numbers is.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll(".definition, .run, .claim")].filter((one) => !one.open);
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
async function explore() {
  try {
    await new Explorer().ready;
  } catch (error) {
    sayFailed(error); // the rest of the report does not need it
  }
}

const explored = document.getElementById("explore") ? explore() : Promise.resolve();
explored.then(() => {
  document.documentElement.dataset.ready = "true";
  setTimeout(() => startDrawing(waiting), 50); // plotly is large: what can be used already is painted first
});
