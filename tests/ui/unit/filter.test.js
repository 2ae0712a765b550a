// Filters: from addresses and typed words, and what they let through.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  asked,
  fold,
  fromQuery,
  hasWords,
  isEmpty,
  matches,
  matchesEvent,
  noFilter,
  parseTyped,
  toQuery,
  typed,
} from "../../../svc-http/ui/pure/filter.js";

const thread = {
  ...{ id: "t", channel_id: "c1", title: "Überprüfe den Parser", state: "open", priority: 3, required_skills: ["rust"] },
  ...{ footprint: { repo: "Acme/Core", mode: "exclusive", items: [] }, owner_id: "m1", assignee_id: null },
};
const names = {
  channelName: (id) => ({ c1: "General" })[id] ?? id,
  handle: (id) => ({ m1: "ada" })[id] ?? id,
  lane: () => "ready",
};

test("a filter survives the address, whatever is in it", () => {
  const fields = Object.fromEntries(Object.keys(noFilter()).map((field) => [field, fc.string()]));
  const any = fc.record(fields, { noNullPrototype: true });
  fc.assert(fc.property(any, (filter) => assert.deepEqual(fromQuery(new URLSearchParams(toQuery(filter))), filter)));
  assert.equal(toQuery(noFilter()), "");
  assert.equal(toQuery({ state: "open", text: "a b" }), toQuery({ text: "a b", state: "open" }));
});

test("what is typed is read, and written as it is read", () => {
  const filter = parseTyped("  in:general @ada repo:acme/core skill:rust p>5 fix  the:parser state:open ");
  assert.deepEqual(filter, {
    ...{ ...noFilter(), channel: "general", member: "ada", repo: "acme/core", skill: "rust", priority: "6" },
    ...{ text: "fix the:parser", state: "open" },
  });
  assert.deepEqual(parseTyped(typed(filter)), filter);
  assert.deepEqual(parseTyped("@"), { ...noFilter(), text: "@" });
  assert.ok(isEmpty(parseTyped(" ")) && isEmpty({ ...noFilter(), by: "agent" }) && !isEmpty(parseTyped("a")));
});

test("each field lets through what it names", () => {
  const table = [
    [{}, true],
    [{ text: "PARSER uber" }, true],
    [{ text: "parser lexer" }, false],
    [{ channel: "c1" }, true],
    [{ channel: "general" }, true],
    [{ channel: "other" }, false],
    [{ member: "m1" }, true],
    [{ member: "ADA" }, true],
    [{ member: "bob" }, false],
    [{ repo: "acme/core" }, true],
    [{ repo: "acme" }, false],
    [{ skill: "Rust" }, true],
    [{ skill: "c" }, false],
    [{ state: "open" }, true],
    [{ state: "closed" }, false],
    [{ lane: "ready" }, true],
    [{ lane: "done" }, false],
    [{ priority: "3" }, true],
    [{ priority: "4" }, false],
    [{ priority: "many" }, false],
    [{ by: "agent" }, true],
  ];
  for (const [fields, wanted] of table) {
    assert.equal(matches(thread, { ...noFilter(), ...fields }, names), wanted, JSON.stringify(fields));
  }
  assert.equal(matches({ ...thread, footprint: null }, { ...noFilter(), repo: "x" }), false);
});

test("events are let through by kind, place, member and words", () => {
  const payload = {
    $chain: { thread_id: "t", channel_id: "c", member_id: null },
    attribution: { actor_id: "a", subject_id: "s" },
    title: "Größe",
  };
  const event = { kind: "ThreadCreated", lsn: 42, payload };
  const all = { kinds: new Set(), thread: "", channel: "", member: "", text: "" };
  const table = [
    [{}, true],
    [{ kinds: new Set(["ThreadCreated"]) }, true],
    [{ kinds: new Set(["Other"]) }, false],
    [{ thread: "t", channel: "c" }, true],
    [{ thread: "u" }, false],
    [{ channel: "d" }, false],
    [{ member: "a" }, true],
    [{ member: "s" }, true],
    [{ member: "b" }, false],
    [{ text: "42" }, true],
    [{ text: "grosse" }, false],
    [{ text: "große" }, true],
    [{ text: "threadcreated" }, true],
    [{ text: "words" }, false],
  ];
  for (const [fields, wanted] of table) assert.equal(matchesEvent(event, { ...all, ...fields }), wanted, JSON.stringify(fields));
  const said = { ...event, message: { body: "some words" } };
  assert.equal(matchesEvent(said, { ...all, text: "words" }), true);
  const bare = { kind: "K", lsn: 1, payload: { $chain: {} } };
  assert.equal(matchesEvent(bare, { ...all, member: "a" }), false);
});

test("texts are compared without case and accents", () => {
  assert.equal(fold("ÉCOLE Ångström ﬁ"), "ecole angstrom fi");
  assert.ok(hasWords("one two", "TWO  one") && hasWords("x", "") && !hasWords("one", "two"));
});

test("what is typed for a filter is read as that filter, whatever is in it", () => {
  const word = fc.string({ unit: "grapheme", minLength: 1 }).filter((text) => /^\S+$/.test(text));
  const any = fc.record({
    ...Object.fromEntries(["channel", "member", "repo", "skill", "state", "lane"].map((name) => [name, fc.string()])),
    text: fc.array(fc.oneof(word, fc.constantFrom("in:x", "p>3", "@ada", '"in:x"', '"', "constructor:x"))),
    priority: fc.oneof(fc.constant(""), fc.integer({ min: -99, max: 999 }).map(String)),
  });
  fc.assert(
    fc.property(any, ({ text, ...fields }) => {
      const filter = { ...noFilter(), ...fields, text: text.join(" ") };
      assert.deepEqual(parseTyped(typed(filter)), filter);
    }),
  );
  assert.equal(typed({ ...noFilter(), channel: "my team", text: "find" }), 'in:"my team" find');
  assert.equal(parseTyped('in:"my tea').channel, '"my', "what is not closed yet is a word");
});

test("what the service can be asked for is asked for, and no less", () => {
  const known = { channels: [{ id: "c1", name: "General" }], members: [{ id: "m1", handle: "ada" }] };
  const of = (typed) => asked(parseTyped(typed), known);
  const workspace = (input) => ({ op: "list_workspace_threads", input });
  const cases = {
    "in:general @ada": { op: "list_threads", input: { channel_id: "c1" } },
    "in:c1 state:closed": { op: "list_threads", input: { channel_id: "c1", state: "closed" } },
    "@ada state:in_review parser": workspace({ assignee_id: "m1", state: "in_review" }),
    "@m1": workspace({ assignee_id: "m1" }),
    "state:archived lane:done": workspace({ state: "archived" }),
    // What no channel, member or state is called, and what the service has no word for.
    "in:nowhere @nobody state:odd lane:ready repo:acme/core skill:rust p>3 parser": null,
    "": null,
  };
  for (const [typed, wanted] of Object.entries(cases)) assert.deepEqual(of(typed), wanted, typed);
  // Of several with one name the service can be asked for one only.
  known.channels.push({ id: "c2", name: "general" });
  assert.equal(of("in:general"), null);
  assert.equal(of("in:c2")?.input.channel_id, "c2");
});
