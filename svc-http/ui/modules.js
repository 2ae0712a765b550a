// Runs the modules of the board, which are sent many in a file: a body is run when its module is first needed.
//
// Promises: a body is run once, and one that fails has failed for whoever needs its module; a file is fetched
// once, by whoever first wants what is in it or when the page has nothing else to do, and anew after it could
// not be fetched. Leaves out: what is in which file, which the server decides.

/** @typedef {Record<string, any>} Module */
/** @typedef {(name: string) => Module} Need Returns a module that is there. */
/** @typedef {(name: string) => Promise<Module>} Load Returns a module, and fetches it if it is not there. */
/** @typedef {(need: Need, load: Load, address: string) => Module} Body */

/**
 * @param {Record<string, Body>} first What is there already, by the names of the modules.
 * @param {string} root The address of the folder that the names are relative to.
 * @param {string[]} files The files with all other modules, in the order in which they are fetched.
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
    // A browser remembers of an address that it could not be fetched.
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

  /** The page has what it shows first: what is left is fetched before somebody waits for it. */
  function fetchAhead() {
    if (isAhead || left.length === 0) return;
    isAhead = true;
    // Whoever wants it tries again, and says what is wrong.
    whenIdle(() => left.length > 0 && fetchNext().catch(() => {}));
  }

  return { need, load };
}

/** After what is shown has been drawn. @param {() => void} run */
function idle(run) {
  const soon = /** @type {any} */ (globalThis).requestIdleCallback ?? setTimeout;
  requestAnimationFrame(() => soon(run));
}
