// The table behind a section: unpacked when it is opened, filtered, sorted, and given away as CSV.

import { text } from "./codec.js";
import { download, el, words } from "./dom.js";
import { number } from "./format.js";

const PAGE = 60;
const SMALL = 16; // rows that need no filter
const MANY = 8; // columns that are set closer, so that the last is seen
const FEW = 120; // columns of words with at most so many values can be filtered by

// A number, with its interval or without, as the tables print it: no spreadsheet takes it for a formula.
const NUMBER = /^[+-]?\d+(?:\.\d+)?(?: \[-?\d+(?:\.\d+)?, -?\d+(?:\.\d+)?\])?$/;

function compare(column, numeric, down) {
  const sign = down ? -1 : 1;
  return (a, b) => {
    const [x, y] = [column[a], column[b]];
    if (x === null || y === null) return (x === null) - (y === null);
    if (numeric) return sign * (x - y);
    return sign * String(x).localeCompare(String(y), undefined, { numeric: true });
  };
}

function quoted(value) {
  if (value === null) return "";
  const said = String(value);
  const plain = typeof value === "string" && /^[=+\-@\t\r]/.test(said) && !NUMBER.test(said) ? `'${said}` : said; // no formula
  return /[",\r\n]/.test(plain) ? `"${plain.replace(/"/g, '""')}"` : plain;
}

export function csv(table) {
  const rows = table.columns[0]?.length ?? 0;
  const lines = [table.names.map(quoted).join(",")];
  for (let i = 0; i < rows; i += 1) lines.push(table.columns.map((column) => quoted(column[i])).join(","));
  return `${lines.join("\n")}\n`;
}

class Table {
  constructor(root, name, table) {
    this.table = table;
    this.rows = [...(table.columns[0] ?? []).keys()];
    this.filters = new Map();
    this.sorted = null;
    this.shown = PAGE;
    this.count = el("span", { class: "count", role: "status" });
    this.head = el("tr", {}, ...table.names.map((title, i) => this.header(title, i)));
    this.body = el("tbody");
    this.more = el("button", { type: "button", class: "quiet", on: { click: () => this.grow() } }, "Show more rows");
    const save = () => download(`${name}.csv`, "text/csv;charset=utf-8", csv(table));
    const bar = el("div", { class: "toolbar" }, ...this.selects(), this.count);
    bar.append(el("button", { type: "button", class: "csv", on: { click: save } }, "Download CSV"));
    const frame = el("div", { class: "frame", tabindex: "0", role: "region", "aria-label": `Table of ${name}` });
    frame.append(el("table", { class: table.names.length > MANY ? "many" : "" }, el("thead", {}, this.head), this.body));
    root.append(bar, frame, this.more);
    this.update();
  }

  header(title, i) {
    const act = () => {
      const down = this.sorted?.column === i && !this.sorted.down;
      this.sorted = { column: i, down };
      this.update();
    };
    const button = el("button", { type: "button", on: { click: act } }, title);
    return el("th", { scope: "col", class: this.table.numeric[i] ? "number" : "", "aria-sort": "none" }, button);
  }

  selects() {
    const made = [];
    if (this.rows.length <= SMALL) return made;
    this.table.names.forEach((title, i) => {
      const values = [...new Set(this.table.columns[i])];
      if (this.table.numeric[i] || values.length < 2 || values.length > FEW) return;
      const change = (event) => {
        if (event.target.value === "") this.filters.delete(i);
        else this.filters.set(i, values[Number(event.target.value)]);
        this.shown = PAGE;
        this.update();
      };
      const select = el("select", { on: { change } }, el("option", { value: "" }, "all"));
      values.forEach((value, k) => select.append(el("option", { value: k }, value === null ? "–" : String(value))));
      made.push(el("label", {}, title, select));
    });
    return made;
  }

  word(value) {
    const text = value === null ? "–" : String(value);
    return el("td", { class: text.length < 28 ? "short" : "" }, words(text));
  }

  grow() {
    this.shown += 4 * PAGE;
    this.update();
  }

  update() {
    const { columns, names, numeric } = this.table;
    const kept = this.rows.filter((row) => [...this.filters].every(([i, value]) => columns[i][row] === value));
    if (this.sorted) kept.sort(compare(columns[this.sorted.column], numeric[this.sorted.column], this.sorted.down));
    [...this.head.children].forEach((cell, i) => {
      const mine = this.sorted?.column === i;
      cell.setAttribute("aria-sort", mine ? (this.sorted.down ? "descending" : "ascending") : "none");
    });
    this.body.replaceChildren(
      ...kept.slice(0, this.shown).map((row) =>
        el("tr", {}, ...names.map((_, i) => {
          const value = columns[i][row];
          return numeric[i]
            ? el("td", { class: "number", "data-value": value }, number(value, 5))
            : this.word(value);
        })),
      ),
    );
    this.count.textContent = `${Math.min(this.shown, kept.length)} of ${kept.length} rows`;
    this.more.hidden = kept.length <= this.shown;
  }
}

export function tables(root) {
  for (const holder of root.querySelectorAll("details[data-table]")) {
    const build = async () => {
      if (!holder.open || holder.dataset.built) return;
      holder.dataset.built = "true";
      const name = holder.dataset.table;
      new Table(holder, name, JSON.parse(await text(`table-${name}`)));
      holder.dataset.ready = "true";
    };
    holder.addEventListener("toggle", build);
    build();
  }
}
