// Loads parts of the page on first use, so that the page itself appears sooner.
//
// Guarantees: a part that cannot be loaded is reported in a dialog. Not here: screens and panels of a task,
// which their own tables load.

import { isOutdated, outdated } from "./outdated.js";
import { shell } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { h } from "./view/node.js";

/**
 * @template {unknown[]} A
 * @param {() => Promise<(...args: A) => unknown>} load
 * @returns {(...args: A) => Promise<unknown>}
 */
const later =
  (load) =>
  async (...args) => {
    try {
      return (await load())(...args);
    } catch (error) {
      console.error(error);
      const body = (await isOutdated()) ? [h("p", ...outdated())] : [];
      openDialog({ title: shell.failed, closeLabel: shell.close, body, name: "failed" });
    }
  };

export const copied = later(async () => (await import("./panels/copied.js")).copied);
export const fillAlarm = later(async () => (await import("./panels/verified.js")).fillAlarm);
export const openAgentMaker = later(async () => (await import("./agent-maker.js")).openAgentMaker);
export const openBacklinks = later(async () => (await import("./of-message.js")).openBacklinks);
export const openEdits = later(async () => (await import("./of-message.js")).openEdits);
export const openForm = later(async () => (await import("./forms.js")).openForm);
export const openHelp = later(async () => (await import("./help.js")).openHelp);
export const openMany = later(async () => (await import("./many.js")).openMany);
export const openMenu = later(async () => (await import("./menus.js")).openMenu);
export const openNewDm = later(async () => (await import("./new-dm.js")).openNewDm);
export const openNewTask = later(async () => (await import("./new-task.js")).openNewTask);
export const openPalette = later(async () => (await import("./palette.js")).openPalette);
export const openPeek = later(async () => (await import("./peek.js")).openPeek);
export const showSecret = later(async () => (await import("./secret.js")).showSecret);
