// Addresses of the board: which screen one is of, and going from one to the next without loading the page.
//
// Promises: every address is relative to where this file came from, so that any prefix of a proxy stays; back
// and forward bring a screen back as it was; a link that is opened in another tab is left to the browser.
// Leaves out: what a screen is.

/**
 * @typedef {{path: string, params: Record<string, string>, query: URLSearchParams, fragment: string}} Place
 */

/** Where the screens are: two folders above the files. */
const ROOT = new URL("../../", import.meta.url);

/**
 * Returns the address of a place.
 *
 * @param {string} path Such as `t/{id}`, with what the braces stand for in `params`.
 * @param {Record<string, string>} [params]
 * @param {string} [rest] A query with its `?`, a fragment with its `#`.
 */
export function hrefOf(path, params = {}, rest = "") {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ""));
  return new URL(filled + rest, ROOT).href.slice(ROOT.origin.length);
}

/**
 * Returns what a path stands for in an address, if the address is of it.
 *
 * @param {string} path
 * @param {URL} address
 * @returns {Place | null}
 */
export function read(path, address) {
  if (!address.pathname.startsWith(ROOT.pathname)) return null;
  const wanted = path.split("/");
  const found = address.pathname.slice(ROOT.pathname.length).split("/");
  if (wanted.length !== found.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [at, part] of wanted.entries()) {
    const has = found[at] ?? "";
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    if (!name && part !== has) return null;
    if (name && has === "") return null;
    if (name) params[name] = decoded(has);
  }
  return { path, params, query: address.searchParams, fragment: decoded(address.hash.slice(1)) };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Follows links and the browser's buttons.
 *
 * @param {(address: URL, how: "link" | "back") => void} open
 */
export function createRouter(open) {
  history.scrollRestoration = "manual";
  const abort = new AbortController();
  const { signal } = abort;

  document.addEventListener(
    "click",
    (event) => {
      const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
      if (!(anchor instanceof HTMLAnchorElement) || !isOurs(anchor, event)) return;
      event.preventDefault();
      go(anchor.href);
    },
    { signal },
  );
  window.addEventListener("popstate", () => open(new URL(location.href), "back"), { signal });

  /** @param {string} href @param {{replace?: boolean}} [how] */
  function go(href, { replace = false } = {}) {
    const address = new URL(href, location.href);
    if (address.href === location.href && !replace) return;
    const depth = Number(history.state?.depth ?? 0);
    remember();
    if (replace) history.replaceState(history.state, "", address);
    else history.pushState({ depth: depth + 1 }, "", address);
    open(address, "link");
  }

  /** Keeps how far the page is scrolled, and which row has the focus and which come next, for when one comes back. */
  function remember() {
    const focused = rowsFrom(document.activeElement);
    history.replaceState({ ...history.state, scrolled: window.scrollY, focused }, "");
  }

  return {
    go,
    /**
     * Changes the query, and the fragment if there is one, without opening anything.
     *
     * @param {string} query
     * @param {string} [fragment]
     */
    note(query, fragment) {
      const address = new URL(location.href);
      address.search = query;
      if (fragment !== undefined) address.hash = fragment;
      history.replaceState(history.state, "", address);
    },
    /** Goes back to where one came from within the board, or to a place of it. @param {string} otherwise */
    back(otherwise) {
      if (Number(history.state?.depth ?? 0) > 0) history.back();
      else go(otherwise);
    },
    /** @returns {string[]} The row that had the focus, and those after it. */
    focused: () => history.state?.focused ?? [],
    scrolled: () => Number(history.state?.scrolled ?? 0),
    close: () => abort.abort(),
  };
}

/** What names the rows of lists: that of a list that holds still, and what it is about in one that is long. */
const ROWS = [
  ["main .held-rows > [data-key]", "data-key"],
  ["main .rows [data-thread]", "data-thread"],
  ["main .rows [data-member]", "data-member"],
  ["main .rows [data-event]", "data-event"],
];

/** So many rows after it stand for one that is gone by then. */
const NEXT = 5;

/** @param {Element | null} node @returns {string[]} */
function rowsFrom(node) {
  const [row = "", name = ""] = ROWS.find(([row = ""]) => node?.closest(row)) ?? [];
  if (!row || !node) return [];
  const list = node.closest(".held-rows, .rows");
  const all = [...(list?.querySelectorAll(`[${name}]`) ?? [])].filter((one) => one.matches(row));
  const at = all.findIndex((one) => one.contains(node));
  return all.slice(at, at + 1 + NEXT).map((one) => one.getAttribute(name) ?? "");
}

/** @param {HTMLAnchorElement} anchor @param {MouseEvent} event */
function isOurs(anchor, event) {
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const isHere = !anchor.target && !anchor.hasAttribute("download") && anchor.origin === ROOT.origin;
  return isPlain && isHere && !event.defaultPrevented && anchor.pathname.startsWith(ROOT.pathname);
}
