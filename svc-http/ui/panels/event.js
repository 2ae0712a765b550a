// Dialog for one event of the log: a sentence, its facts, the hashed payload, and a check of the hash.
//
// Guarantees: this browser recomputes the hash; a missing or invisible event is reported as such. Not here:
// the links of the whole log (proof.js).

import { dateTime } from "../pure/format.js";
import { takeWords } from "../pure/effects/words.js";
import { defectOf } from "../pure/verify.js";
import { defects, event as say, eventSentence, log as words } from "../strings/en.js";
import { marked } from "../marked.js";
import { hrefTo } from "../names.js";
import { openDialog } from "../view/dialog.js";
import { h, link, setAttr, setText } from "../view/node.js";
import { verbatim } from "../view/plain.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../pure/types.js").LogEvent} LogEvent */

/**
 * @param {World} world
 * @param {number} lsn
 * @param {{known: LogEvent | undefined, query: string, onClose: () => void}} setting `query`: query of the
 * log screen.
 */
export function openEvent(world, lsn, { known, query, onClose }) {
  const place = h("div.stack", h("p.quiet.later", say.reading));
  const beside = h(
    "div.row",
    lsn > 1 ? step(say.earlier, lsn - 1) : null,
    lsn < world.store.lsn() ? step(say.later, lsn + 1) : null,
  );
  const dialog = openDialog({
    title: words.event(lsn),
    closeLabel: say.close,
    body: [place, beside],
    isWide: true,
    name: "event",
    onClose,
  });
  setAttr(dialog.node, "data-lsn", lsn);

  /** @param {string} label @param {number} to */
  function step(label, to) {
    const href = hrefTo("log", {}, `${query}#${to}`);
    return href ? link(href, {}, label) : null;
  }

  async function read() {
    try {
      const { body } = await world.ask("list_events", { after_id: lsn - 1, limit: 1 });
      const found = body.items[0];
      return found?.lsn === lsn ? found : null;
    } catch {
      return null;
    }
  }

  let event = known ?? null;
  /** Message that the dialog shows. @type {LogEvent["message"]} */
  let drawn;
  function draw() {
    drawn = event?.message;
    place.replaceChildren(...(event ? partsOf(world, event) : [h("p.told.warn", say.absent)]));
  }

  async function fill() {
    event ??= await read();
    draw();
  }
  void fill();
  return {
    ...dialog,
    /** Removes the text of a message that was withdrawn or purged since. @param {LogEvent[]} news */
    take(news) {
      if (event) for (const one of news) takeWords([event], one);
      if (event && event.message !== drawn) draw();
    },
  };
}

/** @param {World} world @param {LogEvent} event */
function partsOf(world, event) {
  const { lsn, kind, payload, prev_hash, content_hash } = event;
  const { at, thread_id, channel_id } = payload.$chain ?? {};
  const { subject_id = null, actor_id = null } = payload.attribution ?? {};
  const { names } = world;
  const isFor = subject_id !== actor_id && subject_id !== null;
  const facts = h(
    "dl.facts",
    ...fact(say.kind, h("span.mono", kind)),
    ...fact(say.at, Number.isFinite(at) ? dateTime(at / 1_000) : ""),
    ...fact(
      say.by,
      names.member(actor_id),
      isFor ? ` (${say.actingFor}` : null,
      isFor ? names.member(subject_id) : null,
      isFor ? ")" : null,
    ),
    ...(thread_id ? fact(say.task, names.thread(thread_id)) : []),
    ...(channel_id ? fact(say.channel, names.channel(channel_id)) : []),
    ...fact(say.hash, h("span.mono", content_hash)),
    ...fact(say.before, h("span.mono", prev_hash)),
    ...fact(say.alone, recomputed(world, event)),
  );
  return [
    h("p", ...nodesOf(eventSentence(event), names)),
    facts,
    ...said(world, event),
    h(
      "details",
      { open: !event.message },
      h("summary", say.payload),
      verbatim(payload, { "data-payload": lsn }),
    ),
  ];
}

/** @param {string} name @param {...import("../view/node.js").Child} what */
const fact = (name, ...what) => [h("dt", name), h("dd", ...what)];

/** @param {World} world @param {LogEvent} event */
function recomputed({ me }, event) {
  const node = h("span", say.checking);
  void defectOf(event, me.workspace_id).then((defect) => {
    setText(node, defect ? defects[defect] : say.good);
    setAttr(node, "data-tone", defect ? "bad" : "ok");
    setAttr(node, "data-defect", defect);
  });
  return node;
}

/** @param {World} world @param {LogEvent} event @returns {Node[]} */
function said(world, { message, payload }) {
  if (!message) return [];
  if (message.withdrawn) return [h("p.quiet", words.withdrawn)];
  const of = { of: `message/${payload.message_id}`, isPast: true, channel: payload.$chain?.channel_id };
  return message.body ? [h("h3", say.words), marked(world, message.body, of)] : [];
}
