// What the page begins with: the token of a link is out of the address before anything else is done.
//
// Promises: the icon stays where it is, whatever the address becomes; if the board cannot be loaded, the page says so.
// Leaves out: the board itself (main.js).

import { takeLink } from "./net/session.js";
import { loading } from "./strings/loading.js";

void open(takeLink(location, history));
for (const link of /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link:not([rel=stylesheet])")))
  link.setAttribute("href", link.href);
// Where the board is open already, a link changes the address of the page and loads none.
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
