// Light, dark and paper; and the one scale of colours for attention, from the page's own background upwards.

const listeners = [];
const system = matchMedia("(prefers-color-scheme: dark)");
let asked = "auto";
let printing = false;

export function theme() {
  if (printing) return "light";
  return asked === "auto" ? (system.matches ? "dark" : "light") : asked;
}

function apply() {
  document.documentElement.dataset.theme = theme();
  listeners.forEach((act) => act(theme()));
}

export function onPaper() {
  return printing;
}

export function onTheme(act) {
  listeners.push(act);
}

export function startTheme(button) {
  system.addEventListener("change", apply);
  addEventListener("beforeprint", () => {
    printing = true;
    apply();
  });
  addEventListener("afterprint", () => {
    printing = false;
    apply();
  });
  if (button) {
    const say = () => {
      button.textContent = { auto: "◐", light: "☀\ufe0e", dark: "☾\ufe0e" }[asked];
      const name = { auto: "as the system", light: "light", dark: "dark" }[asked];
      button.setAttribute("aria-label", `Colours: ${name}`);
      button.title = `Colours: ${name}`;
    };
    button.addEventListener("click", () => {
      asked = { auto: "light", light: "dark", dark: "auto" }[asked];
      say();
      apply();
    });
    say();
  }
  apply();
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The colours of the scale, as the style sheet names them.
function stops() {
  return colour("ramp").match(/#[0-9a-f]{6}/gi);
}

function parts(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function luminance([r, g, b]) {
  const line = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2];
}

// 256 colours with the ink that is read best on each.
const tables = {};
function ramp() {
  const name = theme();
  if (tables[name]) return tables[name];
  const ends = stops().map(parts);
  const made = [];
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (ends.length - 1);
    const low = Math.min(Math.floor(at), ends.length - 2);
    const rgb = ends[low].map((c, k) => Math.round(c + (ends[low + 1][k] - c) * (at - low)));
    const light = luminance(rgb);
    const onDark = 1.05 / (light + 0.05);
    const onLight = (light + 0.05) / (luminance(parts("#10161b")) + 0.05);
    made.push({ rgb, css: `rgb(${rgb.join(" ")})`, ink: onDark > onLight ? "#ffffff" : "#10161b" });
  }
  tables[name] = made;
  return made;
}

export function scale() {
  return stops().map((stop, i, all) => [i / (all.length - 1), stop]);
}

// Received attention is shown by its square root, as in the printed figures, from `low` (paper) to `top` (full colour):
// small shares stay visible, and what every token gets stays pale.
export function shade(share, { low, top }) {
  if (Number.isNaN(share)) return null;
  const [from, to] = [Math.sqrt(low), Math.sqrt(top)];
  return ramp()[Math.max(0, Math.min(255, Math.round((255 * (Math.sqrt(share) - from)) / (to - from))))];
}
