// Whether the server has another board by now than this page is of, and what one can do about it then.
//
// Promises: it costs a request that is answered from the browser's cache as long as nothing has changed; a page
// that is older is never reloaded unasked. Leaves out: when it is looked at (stage.js).

import { readPage } from "./net/ask.js";
import { shell } from "./strings/en.js";
import { button } from "./view/node.js";

/** The folder of the files of this page, which is named after all that is in them. */
function ownFolder() {
  const script = document.querySelector("script[type=module]");
  return /f\/[^/]+\/(?=[^/]+$)/.exec(script?.getAttribute("src") ?? "")?.[0] ?? "";
}

/** What cannot be told is not so. */
export async function isOutdated() {
  try {
    return !(await readPage()).includes(ownFolder());
  } catch {
    return false;
  }
}

/** That it is so, and the way out of it: what is written is kept beside the page. */
export const outdated = () => [shell.outdated, " ", button(shell.reload, () => location.reload())];
