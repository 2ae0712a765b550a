// The addresses of scripts that the page itself starts: workers, which the browser wants vouched for.
//
// Promises: only a file of the board's own is ever one; the one policy of the page is made here and nowhere
// else. Leaves out: what the scripts do.

/** Where the screens are: two folders above the files. */
const ROOT = new URL("../../../", import.meta.url).href;

/** @type {any} */
const types = /** @type {any} */ (globalThis).trustedTypes;
/** @type {{createScriptURL: (address: string) => any} | undefined} */
const policy = types?.createPolicy("board", { createScriptURL: own });

/** @param {string} address */
function own(address) {
  if (!address.startsWith(ROOT)) throw new TypeError(address);
  return address;
}

/**
 * Returns the address of a script as the browser takes it.
 *
 * @param {URL} address
 * @returns {any} A string where the browser knows no trusted types.
 */
export const ownScript = (address) => policy?.createScriptURL(address.href) ?? own(address.href);
