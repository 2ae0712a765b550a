// Where one comes back to after a sign-in elsewhere: an address that the service takes, whatever stands in the page's.

import assert from "node:assert/strict";
import { test } from "node:test";

import { returnTo } from "../../../svc-http/ui/pure/address.js";

/** What the service takes, as its contract has it. */
const TAKEN =
  /^\/ui\/([A-Za-z0-9_~-][A-Za-z0-9._~-]*\/)*([A-Za-z0-9_~-][A-Za-z0-9._~-]*)?(\?[A-Za-z0-9._~=&%+:@,-]*)?(#[A-Za-z0-9._~/=-]*)?$/;

test("a prefix is left out, and what one looked for stays", () => {
  for (const [page, service, wanted] of [
    ["https://a.example/ui/", "https://a.example", "/ui/"],
    ["https://a.example/ui/board?by=channel", "https://a.example", "/ui/board?by=channel"],
    ["https://a.example/tools/svc/ui/t/1#m-2", "https://a.example/tools/svc", "/ui/t/1#m-2"],
    ["https://a.example/ui/ui/ui/", "https://a.example/ui/ui", "/ui/"],
    ["https://a.example/ui/board?text=a+b%20c", "https://a.example", "/ui/board?text=a+b%20c"],
    ["https://a.example/ui/board?text=a*(b)/c", "https://a.example", "/ui/board?text=a%2a%28b%29%2fc"],
    ["https://a.example/ui/t/1#a b", "https://a.example", "/ui/t/1"],
    [`https://a.example/ui/board?text=${"x".repeat(600)}`, "https://a.example", "/ui/board"],
  ]) {
    assert.equal(returnTo(page, service), wanted);
    assert.match(wanted, TAKEN);
  }
});

test("whatever is typed behind the path, the service takes it", () => {
  const all = Array.from({ length: 0x250 }, (_, at) => String.fromCharCode(at)).join("");
  for (const one of [...all, "💥", "?", "//x", "\\"]) {
    const found = returnTo(`https://a.example/ui/board?a=${one}#${one}`, "https://a.example");
    assert.match(found, TAKEN, JSON.stringify(one));
  }
});
