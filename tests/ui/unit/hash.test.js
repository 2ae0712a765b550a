// SHA-256: the vectors of NIST, and our own against the one of the platform.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { hashOf, sha256, sha256Own } from "../../../svc-http/ui/pure/hash.js";

const bytes = (text) => new TextEncoder().encode(text);

/** FIPS 180-4 and the vectors of CAVP that go with it. */
const VECTORS = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  [
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  ],
  [
    "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
    "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
  ],
  ["a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
];

test("the vectors of NIST, with WebCrypto and without", async () => {
  for (const [text, digest] of VECTORS) {
    assert.equal(sha256Own(bytes(text)), digest);
    assert.equal(await sha256(bytes(text)), digest);
    assert.equal(await hashOf(text, undefined), `sha256:${digest}`);
  }
});

test("without WebCrypto our own is used, and it agrees with it on any bytes", async () => {
  const parts = fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.nat(8));
  await fc.assert(
    fc.asyncProperty(parts, async ([whole, from]) => {
      // A part of a buffer is not the buffer.
      const part = whole.subarray(Math.min(from, whole.length));
      const own = sha256Own(part);
      assert.equal(own, await sha256(part));
      assert.equal(own, await sha256(part, null));
    }),
  );
});
