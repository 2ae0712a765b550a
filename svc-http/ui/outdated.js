// Checks whether the server has a newer version of the board than this page, and offers to reload.
//
// Guarantees: while nothing has changed, the server answers the check with "not modified"; an older page is
// never reloaded unasked. Not here: when to check (stage.js).

import { readPage } from "./net/ask.js";
import { shell } from "./strings/en.js";
import { button } from "./view/node.js";

/** Returns the folder of this page's files, whose name is a hash of their content. */
function ownFolder() {
  const script = document.querySelector("script[type=module]");
  return /f\/[^/]+\/(?=[^/]+$)/.exec(script?.getAttribute("src") ?? "")?.[0] ?? "";
}

/** Returns whether this page is outdated; false if the server cannot be reached. */
export async function isOutdated() {
  try {
    return !(await readPage()).includes(ownFolder());
  } catch {
    return false;
  }
}

/** Returns the notice and the reload button; drafts survive the reload. */
export const outdated = () => [shell.outdated, " ", button(shell.reload, () => location.reload())];
