// SHA-256 (FIPS 180-4): WebCrypto's, or this file's on a plain HTTP page, which has no WebCrypto.
//
// Not here: secrets; only public data is hashed.

const ROUND = new Uint32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
  0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
  0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
  0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
  0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
  0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]);
const BEGIN = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const BLOCK = 64;

/**
 * @param {number} word
 * @param {number} by
 */
const turned = (word, by) => (word >>> by) | (word << (32 - by));

/**
 * Adds one block of 64 bytes to the state.
 * @param {Uint32Array} state
 * @param {DataView} view
 * @param {number} from
 * @param {Uint32Array} words
 */
function compress(state, view, from, words) {
  for (let at = 0; at < 16; at += 1) words[at] = view.getUint32(from + at * 4);
  for (let at = 16; at < 64; at += 1) {
    const [near, far] = [words[at - 15], words[at - 2]];
    const low = turned(near, 7) ^ turned(near, 18) ^ (near >>> 3);
    const high = turned(far, 17) ^ turned(far, 19) ^ (far >>> 10);
    words[at] = words[at - 16] + low + words[at - 7] + high;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let at = 0; at < 64; at += 1) {
    const sum = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const one = (h + sum + ((e & f) ^ (~e & g)) + ROUND[at] + words[at]) | 0;
    const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  const added = [a, b, c, d, e, f, g, h];
  for (let at = 0; at < 8; at += 1) state[at] += added[at];
}

/**
 * Returns the bytes after the last whole block, with the padding of the standard.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array}
 */
function ending(bytes) {
  const rest = bytes.length % BLOCK;
  const padded = new Uint8Array(rest < BLOCK - 8 ? BLOCK : 2 * BLOCK);
  padded.set(bytes.subarray(bytes.length - rest));
  padded[rest] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  return padded;
}

/**
 * @param {Uint8Array} bytes
 * @returns {string} in lower-case hexadecimal
 */
export function sha256Own(bytes) {
  const state = Uint32Array.from(BEGIN);
  const words = new Uint32Array(64);
  const whole = bytes.length - (bytes.length % BLOCK);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let from = 0; from < whole; from += BLOCK) compress(state, view, from, words);
  const end = ending(bytes);
  const last = new DataView(end.buffer);
  for (let from = 0; from < end.length; from += BLOCK) compress(state, last, from, words);
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/**
 * @param {Uint8Array} bytes
 * @param {SubtleCrypto | undefined} [subtle]
 * @returns {Promise<string>} in lower-case hexadecimal
 */
export async function sha256(bytes, subtle = globalThis.crypto?.subtle) {
  if (!subtle) return sha256Own(bytes);
  const digest = await subtle.digest("SHA-256", /** @type {BufferSource} */ (bytes));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const encoder = new TextEncoder();

/**
 * @param {string} text
 * @param {SubtleCrypto | undefined} [subtle]
 * @returns {Promise<string>} as the API formats hashes
 */
export async function hashOf(text, subtle = globalThis.crypto?.subtle) {
  return `sha256:${await sha256(encoder.encode(text), subtle)}`;
}
