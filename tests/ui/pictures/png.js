// Makes a picture of a screen small: a PNG whose pixels are places in a palette of 256 colours.
//
// Promises: the same picture gives the same bytes; a picture with up to 256 colours loses none, else those of which there
// are fewest become the next ones. Leaves out: what no browser writes, such as interlaced pictures.

import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const COLOURS = 256;
/** Bytes a pixel, by the kind of colours: red, green, blue; and with what shines through. */
const BYTES = { 2: 3, 6: 4 };

/** How wide and high a picture is. @param {Buffer} png */
export function sizeOf(png) {
  if (!png.subarray(0, 8).equals(SIGNATURE)) throw new Error("it is no PNG");
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) };
}

/** @param {Buffer} png As a browser writes it. @returns {Buffer} */
export function withPalette(png) {
  const { width, height, colours } = pixelsOf(png);
  const palette = paletteOf(colours);
  const places = new Map();
  const lines = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < colours.length; at += 1) {
    const colour = colours[at];
    if (!places.has(colour)) places.set(colour, nearest(palette, colour));
    lines[at + Math.floor(at / width) + 1] = places.get(colour);
  }
  const header = Buffer.from(png.subarray(16, 29));
  header.set([8, 3, 0, 0, 0], 8);
  const colourBytes = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const parts = [part("IHDR", header), part("PLTE", colourBytes), part("IDAT", deflateSync(lines, { level: 9 }))];
  return Buffer.concat([SIGNATURE, ...parts, part("IEND", Buffer.alloc(0))]);
}

/** @param {string} name @param {Buffer} data */
function part(name, data) {
  const named = Buffer.concat([Buffer.from(name), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, check]);
}

/** The colour of each pixel, as one number. @param {Buffer} png */
function pixelsOf(png) {
  const { width, height } = sizeOf(png);
  const [depth, kind, , , interlaced] = png.subarray(24, 29);
  const bytes = BYTES[kind];
  if (depth !== 8 || !bytes || interlaced) throw new Error("it is no PNG that a browser writes");
  const data = [];
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) {
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const lines = unfiltered(inflateSync(Buffer.concat(data)), width * bytes, bytes);
  const colours = new Uint32Array(width * height);
  for (let at = 0; at < colours.length; at += 1) colours[at] = lines.readUIntBE(at * bytes, 3);
  return { width, height, colours };
}

/** Undoes what makes lines easier to compress. @param {Buffer} raw @param {number} length @param {number} bytes */
function unfiltered(raw, length, bytes) {
  const lines = Buffer.alloc((raw.length / (length + 1)) * length);
  for (let from = 0, to = 0; from < raw.length; from += length + 1, to += length) {
    const filter = raw[from];
    for (let at = 0; at < length; at += 1) {
      const left = at < bytes ? 0 : lines[to + at - bytes];
      const above = to === 0 ? 0 : lines[to + at - length];
      const corner = at < bytes || to === 0 ? 0 : lines[to + at - length - bytes];
      const guess = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter];
      lines[to + at] = raw[from + 1 + at] + guess;
    }
  }
  return lines;
}

/** Which of three is nearest to what they lead to, as PNG has it. */
function paeth(left, above, corner) {
  const guess = left + above - corner;
  const [a, b, c] = [left, above, corner].map((one) => Math.abs(guess - one));
  return a <= b && a <= c ? left : b <= c ? above : corner;
}

/** The colours of which there are most. @param {Uint32Array} colours @returns {number[]} */
function paletteOf(colours) {
  const counts = new Map();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const byCount = [...counts].sort(([one, ofOne], [other, ofOther]) => ofOther - ofOne || one - other);
  return byCount.slice(0, COLOURS).map(([colour]) => colour);
}

/** @param {number[]} palette @param {number} colour */
function nearest(palette, colour) {
  let [best, least] = [0, Number.POSITIVE_INFINITY];
  for (const [at, other] of palette.entries()) {
    const parts = [16, 8, 0].map((shift) => ((colour >> shift) & 255) - ((other >> shift) & 255));
    const distance = parts.reduce((sum, one) => sum + one * one, 0);
    if (distance < least) [best, least] = [at, distance];
  }
  return best;
}
