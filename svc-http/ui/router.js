// Addresses of the board: finds the screen of an address, and navigates without loading the page.
//
// Guarantees: every address is relative to the URL of this file, so the prefix of a proxy is kept; back and
// forward restore the screen; a link opened in another tab is left to the browser. Not here: the screens.

/**
 * @typedef {{path: string, params: Record<string, string>, query: URLSearchParams, fragment: string}} Place
 */

/** Folder of the screens, two levels above the folder of the files. */
const ROOT = new URL("../../", import.meta.url);

/**
 * Returns the URL of a screen.
 *
 * @param {string} path Path such as `t/{id}`, with the values of its placeholders in `params`.
 * @param {Record<string, string>} [params]
 * @param {string} [rest] A query with its `?`, a fragment with its `#`.
 */
export function hrefOf(path, params = {}, rest = "") {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ""));
  return new URL(filled + rest, ROOT).href.slice(ROOT.origin.length);
}

/**
 * Parses an address by a path pattern; null if the address does not match.
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
 * Follows links and the browser's back and forward buttons.
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

  /** Stores the scroll position and the focused row with the next ones, for when the user comes back. */
  function remember() {
    const focused = rowsFrom(document.activeElement);
    history.replaceState({ ...history.state, scrolled: window.scrollY, focused }, "");
  }

  return {
    go,
    /**
     * Changes the query, and the fragment if one is given, without opening a screen.
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
    /**
     * Goes back within the board, or to the given place if there is no earlier one.
     *
     * @param {string} otherwise
     */
    back(otherwise) {
      if (Number(history.state?.depth ?? 0) > 0) history.back();
      else go(otherwise);
    },
    /** @returns {string[]} The row that had the focus, and the rows after it. */
    focused: () => history.state?.focused ?? [],
    scrolled: () => Number(history.state?.scrolled ?? 0),
    close: () => abort.abort(),
  };
}

/**
 * Selectors of list rows and the attributes that identify them: rows of held lists, then those of long lists.
 */
const ROWS = [
  ["main .held-rows > [data-key]", "data-key"],
  ["main .rows [data-thread]", "data-thread"],
  ["main .rows [data-member]", "data-member"],
  ["main .rows [data-event]", "data-event"],
];

/** Number of following rows that are stored in case the focused row is gone later. */
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
