// Keyboard shortcuts: single letters, sequences such as `g b`, and combinations with Ctrl or Cmd.
//
// Guarantees: the innermost place that binds a key receives it; while the user types, only combinations and
// Escape count; Space presses the focused button; single letters, and with them sequences, can be switched
// off (WCAG 2.1.4). Not here: what keys do, and their names.

/**
 * @typedef {Record<string, (event: KeyboardEvent) => void | boolean>} Keys Handlers by key; one that returns
 * false passes the key on.
 */

/** Maximum time between the two keys of a sequence, in ms. */
const SEQUENCE = 1_200;
/** Letters that repeat while they are held. */
const MOVES = new Set(["j", "k", "h", "l"]);

/**
 * @param {Document} document
 * @param {() => boolean} hasLetters
 */
export function createKeys(document, hasLetters) {
  /** @type {Keys[]} */
  const places = [];
  let first = "";
  let firstAt = 0;

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    if (!name) return;
    const isPlain = !name.startsWith("Mod+");
    const isLetter = /^(Shift\+)?.$/.test(name);
    if (isPlain && name !== "Escape" && isTyping(event.target)) return;
    if (name === "Space" && isPressed(event.target)) return;
    if (isLetter && !hasLetters()) return;
    // A held key would confirm the action that its first press has armed.
    if (event.repeat && isLetter && !MOVES.has(name)) return;
    const sequence = first && event.timeStamp - firstAt < SEQUENCE ? `${first} ${name}` : "";
    first = "";
    if (sequence && offer(sequence, event)) return;
    if (offer(name, event)) return;
    if (isLetter && places.some((keys) => Object.keys(keys).some((key) => key.startsWith(`${name} `)))) {
      first = name;
      firstAt = event.timeStamp;
    }
  });

  /** @param {string} name @param {KeyboardEvent} event */
  function offer(name, event) {
    const hasDialog = document.querySelector("dialog[open]") !== null;
    for (let at = places.length - 1; at >= 0; at -= 1) {
      const keys = /** @type {Keys} */ (places[at]);
      const press = keys[name];
      if (press && (!hasDialog || name.startsWith("Mod+")) && press(event) !== false) {
        event.preventDefault();
        return true;
      }
    }
    return false;
  }

  return {
    /**
     * Adds the keys of a place, above existing ones.
     *
     * @param {Keys} keys
     * @returns {() => void} Takes the keys away.
     */
    bind(keys) {
      places.push(keys);
      return () => {
        const at = places.indexOf(keys);
        if (at >= 0) places.splice(at, 1);
      };
    },
  };
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  if (event.altKey) return null;
  const key = event.key === " " ? "Space" : event.key;
  // On a non-Latin layout, a key is named by its position.
  const letter = key.length === 1 && key > "~" ? event.code.replace(/^Key/, "") : key;
  if (event.ctrlKey || event.metaKey) return `Mod+${letter.toLowerCase()}`;
  if (key.length === 1) return event.shiftKey && /[a-z]/i.test(key) ? `Shift+${key.toLowerCase()}` : key;
  return event.shiftKey ? `Shift+${key}` : key;
}

/** Returns whether Space presses the focused element. @param {EventTarget | null} target */
const isPressed = (target) =>
  target instanceof HTMLElement &&
  target.matches("button, summary, [role=button], input[type=checkbox], input[type=radio]");

/** @param {EventTarget | null} target */
function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement)
    return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return (
    target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable
  );
}
