// Runs the modules of the board, which the server sends in bundles; a module runs when it is first needed.
//
// Guarantees: a module runs once, and if it fails, it fails for every importer; a bundle is fetched once,
// when a module in it is first needed or when the page is idle, and again after a failed fetch. Not here: the
// contents of each bundle, which the server decides.

/** @typedef {Record<string, any>} Module */
/** @typedef {(name: string) => Module} Need Returns a module that is already loaded. */
/**
 * @typedef {(name: string) => Promise<Module>} Load Returns a module, and fetches its bundle if necessary.
 */
/** @typedef {(need: Need, load: Load, address: string) => Module} Body */

/**
 * @param {Record<string, Body>} first The modules that are already loaded, by name.
 * @param {string} root URL of the folder that the names are relative to.
 * @param {string[]} files The bundles with all other modules, in the order in which they are fetched.
 * @param {(address: string) => Promise<{default: Record<string, Body>}>} fetchFile
 * @param {(run: () => void) => void} [whenIdle]
 */
export function openModules(first, root, files, fetchFile, whenIdle = idle) {
  const bodies = new Map(Object.entries(first));
  /** @type {Map<string, () => Module>} */
  const made = new Map();
  const left = [...files];
  /** @type {Promise<void> | null} */
  let fetching = null;
  let failures = 0;
  let isAhead = false;

  /** @type {Need} */
  function need(name) {
    const known = made.get(name);
    if (known) return known();
    const body = bodies.get(name);
    if (!body) throw new Error(`no module ${name}`);
    try {
      const module = body(need, load, new URL(name, root).href);
      made.set(name, () => module);
      return module;
    } catch (error) {
      made.set(name, () => {
        throw error;
      });
      throw error;
    }
  }

  /** @type {Load} */
  async function load(name) {
    if (bodies.has(name)) fetchAhead();
    while (!bodies.has(name) && left.length > 0) await fetchNext();
    return need(name);
  }

  function fetchNext() {
    fetching ??= fetched().finally(() => (fetching = null));
    return fetching;
  }

  async function fetched() {
    // Browsers cache failed module fetches by URL, so a retry needs a new one.
    const again = failures ? `?${failures}` : "";
    try {
      const { default: more } = await fetchFile(new URL(left[0] + again, root).href);
      for (const [name, body] of Object.entries(more)) bodies.set(name, body);
      left.shift();
    } catch (error) {
      failures += 1;
      throw error;
    }
  }

  /** Fetches the remaining bundles once the page has what it shows first. */
  function fetchAhead() {
    if (isAhead || left.length === 0) return;
    isAhead = true;
    // The first caller that needs the module tries again and reports the failure.
    whenIdle(() => left.length > 0 && fetchNext().catch(() => {}));
  }

  return { need, load };
}

/** Runs a function after the page has been drawn. @param {() => void} run */
function idle(run) {
  const soon = /** @type {any} */ (globalThis).requestIdleCallback ?? setTimeout;
  requestAnimationFrame(() => soon(run));
}
