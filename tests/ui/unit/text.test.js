// Markdown becomes nodes and never markup: whatever is no link to the web is text, and what is not seen is shown.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { mentionAt, writtenHandle } from "../../../svc-http/ui/pure/handles.js";
import { NODES_MAX, parse, plain, shown, shownText, webAddress } from "../../../svc-http/ui/pure/text.js";

const members = { ada: "A", "ada.b": "B", worker: "W" };
const mentions = (handle) => members[handle] ?? null;

/** A tree as a short text. */
function told(nodes) {
  return nodes
    .map((node) => {
      const inner = node.children ? told(node.children) : (node.text ?? "");
      const more = node.href ?? node.member ?? node.level ?? (node.type === "list" && node.ordered ? node.start : "") ?? "";
      return node.type === "text" ? inner : `<${node.type}${more === "" ? "" : ` ${more}`}${inner ? ` ${inner}` : ""}>`;
    })
    .join("");
}
const line = (text) => told(parse(text, { mentions })[0].children);

test("what stands in a line", () => {
  const table = [
    ["plain words", "plain words"],
    ["**strong** and *em* and _em_ and ~~gone~~", "<strong strong> and <em em> and <em em> and <strike gone>"],
    ["**a *b* c**", "<strong a <em b> c>"],
    ["***both***", "<strong <em both>>"],
    ["snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"],
    ["`code *as is*` and ``a`b``", "<code code *as is*> and <code a`b>"],
    ["an `unclosed", "an `unclosed"],
    ["**unclosed", "**unclosed"],
    ["[text](https://a.example/x)", "<link https://a.example/x text>"],
    ["[**bold**](https://a.example)", "<link https://a.example/ <strong bold>>"],
    [
      "see https://a.example/x, or (http://b.example)",
      "see <link https://a.example/x https://a.example/x>, or (<link http://b.example/ http://b.example>)",
    ],
    ["<https://a.example>", "<link https://a.example/ https://a.example>"],
    ["one\ntwo", "one<break>two"],
    ["\\*no\\* \\[no\\](https://a.example/)", "*no* [no](<link https://a.example/ https://a.example/>)"],
    ["@ada and @Ada.B, @worker. @nobody", "<mention A @ada> and <mention B @Ada.B>, <mention W @worker>. @nobody"],
    ["mail a@ada.example, `@ada` and /@ada", "mail a@ada.example, <code @ada> and /@ada"],
  ];
  for (const [text, wanted] of table) assert.equal(line(text), wanted, text);
});

test("what stands in lines of its own", () => {
  const table = [
    ["# One\n### Three\ntext", "<heading 1 One><heading 3 Three><paragraph text>"],
    ["#no heading", "<paragraph #no heading>"],
    ["# One ## \n## C#\n# ##", "<heading 1 One><heading 2 C#><heading 1>"],
    ["a\n\nb", "<paragraph a><paragraph b>"],
    ["- a\n- b\n  - c\n\ntext", "<list <item <paragraph a>><item <paragraph b><list <item <paragraph c>>>>><paragraph text>"],
    ["3. a\n4. b", "<list 3 <item <paragraph a>><item <paragraph b>>>"],
    ["> a\n> b\n\nc", "<quote <paragraph a<break>b>><paragraph c>"],
    ["---", "<rule>"],
    ["```js\nlet a = '**b**';\n```\nafter", "<code_block let a = '**b**';><paragraph after>"],
    ["~~~\nunclosed", "<code_block unclosed>"],
    ["a\r\nb", "<paragraph a<break>b>"],
    ["", ""],
    ["\n \n", ""],
  ];
  for (const [text, wanted] of table) assert.equal(told(parse(text)), wanted, JSON.stringify(text));
  assert.equal(parse("```js\u202e x\n```")[0].language, "jsU+202E x");
});

test("only addresses of the web are links", () => {
  for (const text of [
    "javascript:alert(1)",
    "data:text/html,x",
    "//a.example",
    "/path",
    "file:///etc/passwd",
    "java\nscript:x",
    "https://",
    "",
  ]) {
    assert.equal(webAddress(text), null, text);
    assert.ok(!told(parse(`[x](${text})`)).includes("<link"), text);
  }
  assert.equal(webAddress("https://bank.example@evil.example/"), null, "what looks like a host is none");
  assert.equal(webAddress("HTTPS://A.example"), "https://a.example/");
  assert.ok(!told(parse('[x](https://a.example/"onclick=alert(1))')).includes('"'));
});

test("what is not seen, or turns text around, is shown", () => {
  assert.equal(
    told(shown("a\u202eb\u0000c\u200bd\u{e0041}")),
    "a<control U+202E>b<control U+0000>c<control U+200B>d<control U+E0041>",
  );
  for (const char of ["\u180b", "\u180f", "\u2800", "\u{13430}", "\u{1bca0}", "\u{1d173}", "\u{1d17a}"])
    assert.equal(told(shown(char)), `<control U+${char.codePointAt(0).toString(16).toUpperCase()}>`);
  assert.equal(told(shown("\ud83d")), "<control U+D83D>");
  assert.equal(told(shown("👩‍🔧 Überprüfen שלום\tx\ny")), "👩‍🔧 Überprüfen שלום\tx\ny");
  assert.equal(shownText("a\u2066b"), "aU+2066b");
  assert.equal(
    told(parse("**a\u202eb** `c\u0007`\n\n```\nd\u200f\n```")),
    "<paragraph <strong a<control U+202E>b> <code c<control U+0007>>><code_block d<control U+200F>>",
  );
  assert.equal(told(parse("[a\u202e](https://a.example)")), "<paragraph <link https://a.example/ a<control U+202E>>>");
});

test("a card has the words in one line, cut between characters", () => {
  assert.equal(plain("# Title\n\n- **a** `b`\n- [c](https://a.example)\u202e"), "Title a b c");
  assert.equal(plain("word ".repeat(100), 20), "word word word word…");
  assert.equal(plain("👍".repeat(30), 10), `${"👍".repeat(9)}…`);
  assert.equal(plain("short", 5), "short");
});

test("what is being mentioned", () => {
  assert.deepEqual(mentionAt("hello @Wo", 9), { start: 6, end: 9, word: "wo" });
  assert.deepEqual(mentionAt("@", 1), { start: 0, end: 1, word: "" });
  assert.deepEqual(mentionAt("hello @wo and", 9)?.word, "wo");
  for (const [text, word] of [
    ["@O'Bri", "o'bri"],
    ["ask (@o'brien@corp.ex", "o'brien@corp.ex"],
    ["cc/@ada+te", "ada+te"],
    ["@ada/@bo", "bo"],
    ["请@a", "a"],
    ["@田", "田"],
    ["\n@josé", "josé"],
  ])
    assert.equal(mentionAt(text, text.length)?.word, word, text);
  for (const text of ["a@b", "hello wo", "@a b", "", "o'brien@corp", "https://x.example/@a", "src/lib/@a", "\\@a"])
    assert.equal(mentionAt(text, text.length), null, text);
  assert.equal(writtenHandle("a`b\\c@d"), "a\\`b\\\\c@d");
});

const pieces = fc.constantFrom(
  ..."*_~`[]()<>@#>-+.1 \n\\!\u202e",
  "**",
  "](",
  "https://a.example/",
  "```",
  "- ",
  "> ",
  "1. ",
  "word",
  "@ada",
  "\u0000",
  "\ud800",
);
const anyText = fc
  .array(fc.oneof(pieces, fc.string({ unit: "binary", maxLength: 5 })), { maxLength: 80 })
  .map((all) => all.join(""));
const TYPES = new Set(
  "text control break rule code code_block mention link heading list paragraph quote item strong em strike".split(" "),
);

function* every(nodes, depth = 0) {
  for (const node of nodes) {
    yield { node, depth };
    if (node.children) yield* every(node.children, depth + 1);
  }
}

test("of any text every word is kept, every node is known, and every link leads to the web", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const nodes = parse(text, { mentions });
      let words = "";
      for (const { node, depth } of every(nodes)) {
        assert.ok(TYPES.has(node.type), node.type);
        assert.ok(depth < 25, `${depth} deep`);
        if (node.type === "link") assert.match(node.href, /^https?:\/\//);
        if (node.type === "text")
          assert.ok(!/[\u0000-\u0008\u200b\u202a-\u202e]|\p{Cs}/u.test(node.text), JSON.stringify(node.text));
        words += node.text ?? "";
      }
      // What stands behind a fence is not of the text.
      const said = text.replace(/(`{3}|~{3}).*/g, "").match(/word/g)?.length ?? 0;
      assert.ok((words.match(/word/g)?.length ?? 0) >= said);
    }),
    { numRuns: 3000 },
  );
});

test("a text of any form takes little time and few nodes", () => {
  const forms = [
    "*",
    "**a ",
    "_a_",
    "`",
    "``a",
    "[",
    "[a](",
    "<http:",
    "> ",
    "- ",
    "- a\n",
    "1. ",
    "# # ",
    "@a.",
    "a\n",
    "\n",
    "\u202e",
    "*a*b",
    "- \n\n  ",
  ];
  const [spaces, signs] = [" ".repeat(45_000), "#".repeat(45_000)];
  const long = ["```", "# x", "- ", "> ", "* * *"].map((begin) => `${begin}${spaces}y${spaces}\u2028z`);
  for (const form of [...forms, ...long, `# x${signs}y`, "```" + " ".repeat(90_000), "[x](http://a"]) {
    const text = form.repeat(Math.ceil(100_000 / form.length));
    const begun = performance.now();
    const nodes = parse(text, { mentions });
    assert.ok(performance.now() - begun < 2000, `${JSON.stringify(form.slice(0, 9))} took ${performance.now() - begun} ms`);
    // Controls are nodes each, wherever they stand.
    const count = [...every(nodes)].filter(({ node }) => node.type !== "control").length;
    assert.ok(count <= NODES_MAX * 2, `${JSON.stringify(form.slice(0, 9))} is ${count} nodes`);
  }
});
