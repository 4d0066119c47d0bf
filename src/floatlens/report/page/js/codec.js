// Undoes report/codec.py: base64, deflate, a header, arrays of codes and of flags.

import { inflate } from "./inflate.js";

export function json(id) {
  return JSON.parse(document.getElementById(`data-${id}`).textContent);
}

function bytes(text) {
  const raw = atob(text);
  const made = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) made[i] = raw.charCodeAt(i);
  return made;
}

// The browser's own decompression; null where it has none, or none of this format (Safari before 16.4, Chrome before 103).
function decompression() {
  if (typeof DecompressionStream === "undefined") return null;
  try {
    return new DecompressionStream("deflate-raw");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return null;
  }
}

export async function blob(name) {
  const packed = bytes(document.getElementById(`blob-${name}`).textContent.trim());
  const undo = decompression();
  if (!undo) return inflate(packed);
  const stream = new Blob([packed]).stream().pipeThrough(undo);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function text(name) {
  return new TextDecoder().decode(await blob(name));
}

export async function unpacked(name) {
  const all = await blob(name);
  const length = new DataView(all.buffer, all.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + length)));
  const arrays = {};
  for (const [key, [at, size]] of Object.entries(header.arrays)) {
    arrays[key] = all.subarray(4 + length + at, 4 + length + at + size);
  }
  return { header, arrays };
}

// Two planes of zigzag differences from step to step; `stride` is the number of values of one step.
export function codesOf(planes, stride) {
  const count = planes.length / 2;
  const made = new Uint16Array(count);
  for (let i = 0; i < count; i += 1) {
    const folded = (planes[i] << 8) | planes[count + i];
    const change = folded & 1 ? -((folded + 1) >> 1) : folded >> 1;
    made[i] = change + (i >= stride ? made[i - stride] : 0);
  }
  return made;
}

// The value of every code: undefined, below the floor, then a logarithmic scale up to 1.
export function valuesOf(levels, floor = 1e-6) {
  const made = new Float64Array(levels);
  for (let code = 0; code < levels; code += 1) made[code] = Math.exp(Math.log(floor) * (1 - (code - 2) / (levels - 3)));
  made[0] = NaN;
  made[1] = 0;
  return made;
}

export function flag(packed, place) {
  return (packed[place >> 3] >> (7 - (place & 7))) & 1;
}
