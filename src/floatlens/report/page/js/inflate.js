// Raw deflate (RFC 1951) for browsers without DecompressionStream. Plain and slow beside theirs, and the same bytes.

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

function distance(symbol) {
  if (symbol < 4) return [symbol + 1, 0];
  const bits = (symbol >> 1) - 1;
  return [((2 + (symbol & 1)) << bits) + 1, bits];
}

// A canonical Huffman code as counts per length and symbols in order.
function tree(lengths) {
  const count = new Uint16Array(16);
  for (const length of lengths) count[length] += 1;
  count[0] = 0;
  const start = new Uint16Array(16);
  for (let i = 1; i < 16; i += 1) start[i] = start[i - 1] + count[i - 1];
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((length, symbol) => {
    if (length) symbols[start[length]++] = symbol;
  });
  return { count, symbols };
}

export function inflate(source) {
  let out = new Uint8Array(Math.max(1024, source.length * 4));
  let size = 0;
  let at = 0;
  let bit = 0;
  const room = (more) => {
    if (size + more <= out.length) return;
    const wider = new Uint8Array(Math.max(out.length * 2, size + more));
    wider.set(out);
    out = wider;
  };
  const bits = (count) => {
    let value = 0;
    for (let i = 0; i < count; i += 1) {
      if (at >= source.length) throw new Error("packed data cut short");
      value |= ((source[at] >> bit) & 1) << i;
      bit += 1;
      if (bit === 8) {
        bit = 0;
        at += 1;
      }
    }
    return value;
  };
  const symbol = ({ count, symbols }) => {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length += 1) {
      code |= bits(1);
      const here = count[length];
      if (code - here < first) return symbols[index + (code - first)];
      index += here;
      first = (first + here) << 1;
      code <<= 1;
    }
    throw new Error("packed data broken");
  };
  const fixed = () => [
    tree([...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)]),
    tree(Array(30).fill(5)),
  ];
  const dynamic = () => {
    const [literals, distances, codes] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const lengths = Array(19).fill(0);
    for (let i = 0; i < codes; i += 1) lengths[ORDER[i]] = bits(3);
    const coder = tree(lengths);
    const all = [];
    while (all.length < literals + distances) {
      const found = symbol(coder);
      if (found < 16) all.push(found);
      else if (found === 16) all.push(...Array(bits(2) + 3).fill(all[all.length - 1]));
      else all.push(...Array(found === 17 ? bits(3) + 3 : bits(7) + 11).fill(0));
    }
    return [tree(all.slice(0, literals)), tree(all.slice(literals))];
  };
  let last = 0;
  while (!last) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      if (bit) at += 1;
      bit = 0;
      const length = source[at] | (source[at + 1] << 8);
      room(length);
      out.set(source.subarray(at + 4, at + 4 + length), size);
      size += length;
      at += 4 + length;
      continue;
    }
    const [literal, far] = kind === 1 ? fixed() : dynamic();
    for (;;) {
      const found = symbol(literal);
      if (found === 256) break;
      if (found < 256) {
        room(1);
        out[size++] = found;
        continue;
      }
      const length = LENGTHS[found - 257] + bits(LENGTH_BITS[found - 257]);
      const [base, extra] = distance(symbol(far));
      const back = base + bits(extra);
      room(length);
      for (let i = 0; i < length; i += 1, size += 1) out[size] = out[size - back];
    }
  }
  return out.subarray(0, size);
}
