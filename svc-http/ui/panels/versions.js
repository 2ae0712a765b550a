// Versions of a memory block, newest first: author, time and event of each.
//
// Guarantees: the log is read only after the user opens the list. Not here: old texts, which are not stored.

import { relative } from "../pure/format.js";
import { acting, memory as say } from "../strings/en.js";
import { hrefTo } from "../names.js";
import { openLog } from "../state/log.js";
import { button, h, link, setChildren, setText, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../pure/types.js").LogEvent} LogEvent */

/** @param {World} world @param {string} id */
export function openVersions(world, id) {
  const list = h("ol.stack.tight");
  const told = h("p.quiet.small", { hidden: true });
  const further = button(say.further, () => void log?.more(), { hidden: true });
  const root = h(
    "details.versions",
    h("summary", say.versions),
    h("div.stack.tight", h("p.quiet.small", say.versionsHint), list, told, h("div.row", further)),
  );
  /** @type {ReturnType<typeof openLog> | null} */
  let log = null;
  /** @type {any} */
  let block = null;

  root.addEventListener("toggle", () => {
    if (!root.open || log) return;
    const filter = { kinds: new Set(["MemoryBlockUpdated"]), thread: "", channel: "", member: "", text: "" };
    log = openLog(world, filter, () => world.store.touch([`versions/${id}`]));
    draw();
  });

  function draw() {
    if (!log || !block) return;
    const changes = log.items().filter(({ payload }) => payload.block_id === id);
    const isWhole =
      block.version === 1 || changes.some(({ payload }) => payload.version === 2) || log.isAtEnd();
    const { isReading, problem } = log.progress;
    if (!isWhole && !isReading && !problem && log.progress.hasFound) void log.more();
    setChildren(list, [...changes.map((event) => row(event)), isWhole ? first() : null]);
    const text = problem ? say.unread : isReading ? say.readingVersions : "";
    show(told, text !== "");
    setText(told, text);
    show(further, !isReading && !isWhole);
  }

  /** @param {LogEvent} event */
  function row({ lsn, payload }) {
    const href = hrefTo("log", {}, `#${lsn}`);
    const at = payload.$chain.at / 1_000;
    return h(
      "li.row",
      { "data-version": payload.version },
      h("strong", say.version(payload.version)),
      world.names.member(payload.attribution?.actor_id),
      h("span.quiet.small", relative(at, world.now())),
      h("span.quiet.small", say.characters(payload.size)),
      href ? link(href, { "data-event": lsn, class: "small" }, acting.receipt(lsn)) : null,
    );
  }

  const first = () =>
    h(
      "li.row",
      { "data-version": 1 },
      h("strong", say.version(1)),
      world.names.member(block.created_by),
      h("span.quiet.small", say.created),
    );

  return {
    root,
    /** @param {any} now */
    show(now) {
      block = now;
      if (root.open) draw();
    },
    /** @param {LogEvent[]} events */
    take: (events) => log?.take(events),
    close: () => log?.close(),
  };
}
