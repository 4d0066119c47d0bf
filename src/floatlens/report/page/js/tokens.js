// The answer and the prompt as tokens: shaded by received attention, anchors outlined, masks as boxes, gold marked.

import { el } from "./dom.js";
import { piece } from "./format.js";
import { shade } from "./theme.js";
import { ABSENT, MASK, OTHER } from "./view.js";

const TITLES = { bos: "BOS", question: "Question", answer: "Answer", template: "Template" };

const LONG = 160; // tokens that fill a prompt's box

export class Tokens {
  // `pick(key)` is told of a click, `point(key or null)` of what the mouse or the focus is on; the element `described`
  // then has its numbers in words.
  constructor(view, titles, pick, point, described) {
    Object.assign(this, { view, described });
    this.spans = new Array(view.length);
    this.texts = view.tokens.map((token, key) => this.text(token, key));
    this.answer = el("div", { class: "tokens answer", role: "listbox", "aria-label": "Answer, token by token" });
    this.prompt = el("div", { class: "tokens prompt", role: "listbox", "aria-label": "Prompt, token by token" });
    this.marked = view.tokens.some((token) => /^[\u0120\u2581 ]/.test(token));
    for (const [name, first, last] of view.stretches()) {
      (name === "answer" ? this.answer : this.prompt).append(this.region(name, first, last, titles));
    }
    this.prompt.classList.toggle("long", view.length > LONG);
    for (const box of [this.answer, this.prompt]) this.listen(box, pick, point);
  }

  listen(box, pick, point) {
    box.addEventListener("click", (event) => this.on(event, pick));
    box.addEventListener("mouseover", (event) => this.on(event, point));
    box.addEventListener("mouseleave", () => point(null));
    box.addEventListener("focusin", (event) => this.on(event, (key) => {
      this.stop(box, this.spans[key]);
      point(key);
    }));
    box.addEventListener("focusout", () => point(null));
    box.addEventListener("keydown", (event) => this.key(event, box, pick));
    const first = box.querySelector(".token");
    if (first) first.tabIndex = 0;
    else box.hidden = true;
  }

  // Of a box one token can be reached by Tab: the one that had the focus last.
  stop(box, span) {
    const before = box.querySelector('.token[tabindex="0"]');
    before.tabIndex = -1;
    before.removeAttribute("aria-describedby");
    span.tabIndex = 0;
    span.setAttribute("aria-describedby", this.described);
  }

  text(token, key) {
    const long = this.view.long[key];
    return piece(token) + (long ? `… (${long} characters)` : "");
  }

  region(name, first, last, titles) {
    const number = name.startsWith("doc") ? Number(name.slice(3)) : 0;
    const gold = name === this.view.goldName;
    const words = [number ? `Document ${number}` : (TITLES[name] ?? name), gold ? "gold" : ""].filter(Boolean);
    const label = el("span", { class: "label", "aria-hidden": "true" }, words[0]);
    if (gold) label.append(" ", el("span", { class: "gold-mark" }, "★ gold"));
    const line = el("span", { class: "line" });
    for (let key = first; key <= last; key += 1) line.append(this.token(key));
    const title = number && titles[number - 1] ? `, ${titles[number - 1]}` : "";
    const kind = `region ${this.view.kind(first)}`;
    return el("div", { class: kind, role: "group", "aria-label": words.join(", ") + title }, label, line);
  }

  token(key) {
    const { view } = this;
    const kinds = ["token"];
    if (view.specialSet.has(key)) kinds.push("special");
    if (view.evidenceSet.has(key)) kinds.push("evidence");
    if (this.marked && !/^[\u0120\u2581 \n\u010a]/.test(view.tokens[key]) && !view.specialSet.has(key)) kinds.push("glued");
    const made = el("span", { class: kinds.join(" "), role: "option", tabindex: "-1", "aria-selected": "false", "data-key": key, dir: "auto" }, this.texts[key]);
    this.spans[key] = made;
    return made;
  }

  on(event, act) {
    const span = event.target.closest?.(".token");
    if (span) act(Number(span.dataset.key));
  }

  key(event, box, pick) {
    const span = event.target.closest?.(".token");
    if (!span || event.ctrlKey || event.metaKey || event.altKey) return;
    const order = [...box.querySelectorAll(".token")];
    const at = order.indexOf(span);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: order.length - 1 }[event.key];
    if (event.key === "Enter") pick(Number(span.dataset.key));
    else if (to === undefined) return;
    else {
      order[Math.max(0, Math.min(order.length - 1, to))].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // `over`: the run ended before the step that is shown, so nothing is new in it.
  update(group, step, row, flashing, over) {
    const { view } = this;
    const range = view.range(group, row);
    const now = view.committedAt.get(step);
    for (let key = 0; key < view.length; key += 1) {
      const span = this.spans[key];
      const state = view.stateAt(step, key);
      const fresh = Boolean(now?.has(key));
      const waiting = (state === MASK || state === ABSENT) && !fresh;
      const tint = state === ABSENT ? null : shade(view.share(group, step, row, key), range);
      span.style.backgroundColor = tint ? tint.css : "";
      span.style.color = tint ? tint.ink : "";
      span.classList.toggle("anchor", view.anchor(group, step, row, key));
      span.classList.toggle("mask", state === MASK && !fresh);
      span.classList.toggle("absent", state === ABSENT && !fresh);
      span.classList.toggle("fresh", fresh && !over);
      span.classList.toggle("flash", fresh && !over && flashing);
      const shown = waiting ? "\u00a0\u00a0\u00a0" : state === OTHER ? `#${view.otherAt.get(step * view.length + key)}` : this.texts[key];
      if (span.textContent !== shown) span.textContent = shown;
      if (waiting) span.setAttribute("aria-label", state === MASK ? "mask" : "not written yet");
      else span.removeAttribute("aria-label");
    }
  }

  // The token that a map, or the other hand, points at.
  point(key) {
    this.pointed?.classList.remove("pointed");
    this.pointed = this.spans[key ?? -1];
    this.pointed?.classList.add("pointed");
  }

  select(key) {
    if (this.chosen !== undefined) this.chosen.setAttribute("aria-selected", "false");
    this.chosen = this.spans[key ?? -1];
    if (this.chosen) this.chosen.setAttribute("aria-selected", "true");
  }
}
