// Personal settings: look and keys, stored in this browser, and the settings that the server stores.
//
// Not here: settings of the workspace.

import { ONE } from "../state/entities.js";
import { settings as say } from "../strings/en.js";
import { looks } from "../panels/settings/looks.js";
import { notificationsPart } from "../panels/settings/notifications.js";
import { pushPart } from "../panels/settings/push.js";
import { mailPart, youPart } from "../panels/settings/you.js";
import { showProblem } from "../reading.js";
import { h, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

const KEY = "list/preferences";

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @returns {import("../screens.js").Open}
 */
export function open(root, world) {
  const wish = world.reads.wish();
  wish.set([KEY, "list/skills"]);
  const preferences = () => world.store.get("preferences", ONE);
  const here = looks();
  const you = youPart(world);
  const parts = [
    pushPart(world, preferences),
    mailPart(world, preferences),
    notificationsPart(world, preferences),
  ];
  const problem = h("p.problem", { hidden: true, role: "alert" });
  const left = h("div.stack", ...here.nodes, you.node);
  const right = h("div.stack", problem, ...parts.map(({ node }) => node));
  root.classList.add("stack", "settings");
  root.append(h("h1", say.title), h("div.settings-body", left, right));
  let done = "";

  /** Reads the preferences again after a write, because no event reports the change. */
  function readAfterwards() {
    const writes = world.outbox.about(`preferences/${ONE}`).filter(({ state }) => state !== "asking");
    const now = writes.map(({ id, state }) => `${id} ${state}`).join();
    if (now !== done && now !== "") world.reads.again(KEY);
    done = now;
  }

  return {
    show() {
      const standing = world.reads.standing(KEY);
      const isRefused = standing?.state === "refused" && Boolean(standing.problem);
      showProblem(world, problem, isRefused ? standing.problem : null);
      readAfterwards();
      you.show();
      for (const part of parts) {
        show(part.node, !isRefused);
        part.show();
      }
    },
    close() {
      here.close();
      wish.close();
    },
  };
}
