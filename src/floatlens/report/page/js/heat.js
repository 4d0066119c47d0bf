// A heatmap on a canvas: rows (steps or layers) by positions, anchors dotted, regions below, a cursor and a selection.

import { el } from "./dom.js";
import { colour, shade } from "./theme.js";

const GUTTER = 34;
const STRIP = 9;

export class Heat {
  // `share(row, key)`, `anchor(row, key)` and `label(row)` read the trace; `choose(row, key)` is told of a click and
  // `point(row, key)`, or `point(null)`, of the mouse.
  constructor(view, title, rows, label, choose, point) {
    Object.assign(this, { view, rows, label });
    this.canvas = el("canvas", { role: "img" });
    this.caption = el("figcaption", {}, title);
    this.needle = el("span", { class: "needle", hidden: true });
    this.box = el("figure", { class: "heat" }, this.caption, el("div", { class: "field" }, this.canvas, this.needle));
    this.canvas.addEventListener("click", (event) => {
      const cell = this.cell(event);
      if (cell) choose(...cell);
    });
    this.canvas.addEventListener("mousemove", (event) => {
      const cell = this.cell(event);
      point(...(cell ?? [null]));
    });
    this.canvas.addEventListener("mouseleave", () => point(null));
  }

  cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - GUTTER, event.clientY - box.top];
    const row = Math.floor(y / this.tall());
    const key = Math.floor((x / (box.width - GUTTER)) * this.view.length);
    return x >= 0 && key < this.view.length && row >= 0 && row < this.rows ? [row, key] : null;
  }

  // A line through the position that is pointed at anywhere; null for none.
  point(key) {
    this.needle.hidden = key === null;
    if (key === null) return;
    this.needle.style.left = `${this.x(key + 0.5, this.box.clientWidth)}px`;
    this.needle.style.height = `${this.rows * this.tall() + STRIP + 4}px`;
  }

  tall() {
    return Math.max(5, Math.min(16, Math.floor(190 / this.rows)));
  }

  draw({ share, anchor, range, cursor, selected, spoken }) {
    const wide = this.box.clientWidth;
    if (!wide) return;
    const [tall, height] = [this.tall(), this.rows * this.tall() + STRIP + 4];
    const sharp = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(wide * sharp);
    this.canvas.height = Math.round(height * sharp);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(sharp, sharp);
    this.cells(pen, wide, tall, share, range);
    this.anchors(pen, wide, tall, anchor);
    this.strip(pen, wide, tall);
    this.marks(pen, wide, tall, cursor, selected);
    this.canvas.setAttribute("aria-label", spoken);
  }

  x(key, wide) {
    return GUTTER + (key / this.view.length) * (wide - GUTTER);
  }

  // An image of one pixel per cell, stretched; where positions are narrower than a pixel, the largest of them.
  cells(pen, wide, tall, share, range) {
    const { length } = this.view;
    const columns = Math.min(length, Math.max(1, Math.round((wide - GUTTER) * (window.devicePixelRatio || 1))));
    const image = new ImageData(columns, this.rows);
    for (let row = 0; row < this.rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        const first = Math.floor((column / columns) * length);
        const last = Math.max(first + 1, Math.floor(((column + 1) / columns) * length));
        let most = NaN;
        for (let key = first; key < last; key += 1) {
          const one = share(row, key);
          if (!(one <= most)) most = Number.isNaN(one) ? most : one;
        }
        const tint = shade(most, range);
        const at = 4 * (row * columns + column);
        if (tint) image.data.set([...tint.rgb, 255], at);
      }
    }
    const held = document.createElement("canvas"); // older browsers have no OffscreenCanvas
    Object.assign(held, { width: columns, height: this.rows });
    held.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = colour("hollow");
    pen.fillRect(GUTTER, 0, wide - GUTTER, tall * this.rows);
    pen.drawImage(held, GUTTER, 0, wide - GUTTER, tall * this.rows);
  }

  anchors(pen, wide, tall, anchor) {
    const size = Math.max(2, Math.min(3, tall / 4));
    for (let row = 0; row < this.rows; row += 1) {
      for (let key = 0; key < this.view.length; key += 1) {
        if (!anchor(row, key)) continue;
        const [x, y] = [this.x(key + 0.5, wide), (row + 0.5) * tall];
        pen.beginPath();
        pen.arc(x, y, size, 0, 7);
        pen.fillStyle = colour("anchor");
        pen.fill();
        pen.lineWidth = 1;
        pen.strokeStyle = colour("card");
        pen.stroke();
      }
    }
  }

  strip(pen, wide, tall) {
    const y = this.rows * tall + 4;
    for (const [, first, last] of this.view.stretches()) {
      pen.fillStyle = colour(`region-${this.view.kind(first)}`);
      const x = this.x(first, wide);
      pen.fillRect(x, y, Math.max(1, this.x(last + 1, wide) - x - 0.75), STRIP);
    }
    pen.fillStyle = colour("soft");
    pen.font = "10.5px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const every = [1, 2, 4, 5, 10, 20, 50].find((n) => n * tall >= 12) ?? 100;
    for (let row = 0; row < this.rows; row += every) pen.fillText(this.label(row), GUTTER - 6, (row + 0.5) * tall);
  }

  marks(pen, wide, tall, cursor, selected) {
    pen.lineWidth = 2;
    if (cursor !== null) {
      pen.strokeStyle = colour("ink");
      pen.strokeRect(GUTTER + 1, cursor * tall, wide - GUTTER - 2, tall);
    }
    if (selected !== null) {
      const x = this.x(selected, wide);
      const cell = Math.max(3, this.x(selected + 1, wide) - x);
      pen.strokeStyle = colour("select");
      pen.strokeRect(x - 0.5, 1, cell + 1, this.rows * tall + STRIP + 2);
    }
  }
}
