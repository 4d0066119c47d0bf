// The numbers of one token, and its share over all steps as a line.

import { el, svg, words } from "./dom.js";
import { number, percent, piece } from "./format.js";

let made = 0;

export class Readout {
  constructor(digits) {
    this.digits = digits;
    made += 1;
    this.id = `readout-${made}`;
    this.said = el("p", { id: this.id, hidden: true }); // a focused token is described by it
    this.shown = el("div", { class: "numbers" });
    this.box = el("div", { class: "readout" }, this.shown, this.said);
  }

  // Nothing is received by anything.
  clear() {
    this.shown.replaceChildren(el("p", { class: "title" }, el("span", { class: "about" }, "no attention at this step")));
    this.said.textContent = "";
  }

  // `about` says why this token is shown: pointed at, selected, or the strongest.
  show(view, key, group, step, row, about) {
    const share = view.share(group, step, row, key);
    const even = view.uniform(group, step, key);
    const facts = [];
    const fact = (name, value, term) => facts.push(el("div", {}, el("dt", {}, term), el("dd", { "data-fact": name }, value)));
    fact("share", percent(share, this.digits), "received");
    if (even > 0) fact("ratio", `${number(share / even, 2)} ×`, "× uniform");
    if (!Number.isNaN(share)) fact("rank", `${view.rank(group, step, row, key)} of ${this.present(view, step)}`, "rank");
    fact("anchor", view.anchor(group, step, row, key) ? "yes" : "no", "anchor");
    fact("position", String(key), "position");
    fact("region", view.regionTitle(key), "in");
    const commit = view.commit.get(key);
    if (commit) {
      const sure = commit.sure === null ? "" : `, confidence ${number(commit.sure)}`;
      fact("committed", `step ${commit.number}${sure}`, "committed at");
    }
    const where = `step ${view.steps[step]}, ${row ? `layer ${view.layers[row - 1]}` : "mean of layers"}`;
    this.said.textContent = facts.map((one) => [...one.children].map((part) => part.textContent).join(" ")).join(", ");
    this.shown.replaceChildren(
      el("p", { class: "title" }, el("span", { class: "about" }, about), words(piece(view.tokens[key]), { class: "word", "data-fact": "token" }), el("small", {}, where)),
      el("dl", {}, ...facts),
      this.spark(view, key, group, step, row),
    );
  }

  present(view, step) {
    let count = 0;
    for (let key = 0; key < view.length; key += 1) count += view.stateAt(step, key) !== 0;
    return count;
  }

  spark(view, key, group, step, row) {
    const shares = view.steps.map((_, i) => view.share(group, i, row, key));
    const top = Math.max(...shares.filter((share) => !Number.isNaN(share)), 0) || 1;
    const x = (i) => 3 + (shares.length > 1 ? i / (shares.length - 1) : 0.5) * 214;
    const y = (share) => 33 - (share / top) * 28;
    const known = shares.map((share, i) => [share, i]).filter(([share]) => !Number.isNaN(share));
    const made = svg("svg", { viewBox: "0 0 220 36", class: "spark", role: "img", "aria-label": `Share over steps, up to ${percent(top, 2)}` });
    made.append(svg("line", { x1: x(step), x2: x(step), y1: 1, y2: 35, class: "now" }));
    made.append(svg("polyline", { points: known.map(([share, i]) => `${x(i)},${y(share)}`).join(" "), class: "path" }));
    if (!Number.isNaN(shares[step])) made.append(svg("circle", { cx: x(step), cy: y(shares[step]), r: 3, class: "here" }));
    return el("div", { class: "over" }, made, el("small", {}, `over ${shares.length} steps, up to ${percent(top, 2)}`));
  }
}
