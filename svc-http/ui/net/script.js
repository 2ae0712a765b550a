// Trusted URLs of the scripts that the page starts as workers.
//
// Guarantees: only files of the board are accepted; the only Trusted Types policy of the page is created
// here. Not here: the scripts.

/** Folder of the screens, which contains all files of the board. */
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
 * Returns the URL of a script in the type that the browser requires.
 *
 * @param {URL} address
 * @returns {any} A string if the browser does not support Trusted Types.
 */
export const ownScript = (address) => policy?.createScriptURL(address.href) ?? own(address.href);
