// The recorded story as states: what a read after each step had.

import { idOf, own } from "../../../../svc-http/ui/pure/answered.js";
import { recorded } from "./read.js";

export const story = recorded("story");
export const events = recorded("opened");
export const me = { member_id: story.me.member_id, workspace_id: story.workspace_id };

/** The state after each step, with where the log was: by kind, then by id. */
export function states() {
  const all = [];
  let now = {};
  for (const { lsn, changes } of story.steps) {
    now = structuredClone(now);
    for (const [kind, changed] of Object.entries(changes)) {
      for (const [key, fields] of Object.entries(changed)) {
        // Repositories have their names in any case.
        const id = kind === "pause" ? key.toLowerCase() : key;
        if (fields === null) delete now[kind][id];
        else (now[kind] ??= {})[id] = { ...own(kind, fields), id: idOf(kind, fields) };
      }
    }
    all.push({ lsn, now });
  }
  return all;
}

/** An entity without what only the board knows of it. */
export const bare = ({ of, stale, ...fields }) => fields;
