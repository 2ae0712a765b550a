// Entry point of the page: removes the token of a link from the address before anything else.
//
// Guarantees: the icon keeps its URL when the address changes; if the board cannot be loaded, the page says
// so. Not here: the board itself (main.js).

import { takeLink } from "./net/session.js";
import { loading } from "./strings/loading.js";

void open(takeLink(location, history));
for (const link of /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link:not([rel=stylesheet])")))
  link.setAttribute("href", link.href);
// If the board is already open, following a link changes only the address and loads no page.
addEventListener("popstate", (event) => {
  const linkToken = takeLink(location, history);
  if (!linkToken) return;
  event.stopImmediatePropagation();
  void open(linkToken);
});

/** @param {string | null} linkToken */
async function open(linkToken) {
  try {
    const main = await import("./main.js");
    void main.openBoard(linkToken);
  } catch {
    const said = document.createElement("p");
    said.textContent = loading.failed;
    said.setAttribute("role", "alert");
    document.body.append(said);
  }
}
