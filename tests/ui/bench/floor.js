// What the board is compared with: a page that only has what the board shows, and a list that only shows what it hears.

import { createServer } from "node:http";
import { gzipSync } from "node:zlib";

/**
 * Serves one page with the same cards in the same style, and the same weight: the scripts are in it as text that nobody
 * runs. It is compressed once, before it is asked for.
 *
 * @param {{html: string, css: string, js: string}} parts
 */
export async function serveStatic({ html, css, js }) {
  const text = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Floor</title><style>${css}</style></head>
${html}<script type="text/plain">${js.replaceAll("</script", "<\\/script")}</script></html>`;
  const body = gzipSync(text);
  const server = createServer((request, response) => {
    const isPage = request.url === "/";
    response.writeHead(isPage ? 200 : 404, { "content-type": "text/html", "content-encoding": "gzip" });
    response.end(isPage ? body : "");
  });
  await new Promise((resume) => server.listen(0, "127.0.0.1", resume));
  return { url: `http://127.0.0.1:${server.address().port}/`, bytes: body.length, close: () => server.close() };
}

/** Where the list is shown: an address of the server's own, so that the session's cookie opens its socket. */
const LIST = "/auth/session";

/**
 * Opens a list that is patched by text: an array of titles, rows for as many as fit into the window, and with each event
 * that comes over the socket the text of one row is set. The page has to be one whose policy is not enforced.
 */
export async function openList(page, world, titles) {
  await page.goto(new URL(LIST, world.url).href);
  const socket = new URL("/ws/subscribe", world.url).href.replace("http", "ws");
  await page.evaluate(follow, { titles, socket, workspaceId: world.workspaceId, style: STYLE });
}

const STYLE = "body { margin: 0; font: 14px system-ui; overflow: hidden } li { height: 24px; overflow: hidden }";

/** Runs in the page. */
async function follow({ titles, socket: address, workspaceId, style }) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];
  const list = document.createElement("ul");
  document.body.replaceChildren(list);
  const rows = [];
  for (const title of titles.slice(0, Math.ceil(innerHeight / 24))) {
    const row = document.createElement("li");
    row.textContent = title;
    rows.push(row);
  }
  list.append(...rows);
  const socket = new WebSocket(address);
  await new Promise((resume, fail) => {
    socket.addEventListener("open", resume);
    socket.addEventListener("error", () => fail(new Error("the socket of the list did not open")));
  });
  let heard = 0;
  const acknowledged = new Promise((resume) =>
    socket.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "subscribe_ack") return resume();
      if (frame.type !== undefined) return;
      const at = heard++ % titles.length;
      titles[at] = `${frame.lsn} ${frame.kind} ${frame.message?.body ?? ""}`;
      rows[at % rows.length].textContent = titles[at];
      document.documentElement.dataset.lsn = frame.lsn;
    }),
  );
  socket.send(JSON.stringify({ filter: { workspace_id: workspaceId } }));
  await acknowledged;
}
