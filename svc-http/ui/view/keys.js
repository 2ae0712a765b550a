// Keys: single letters, sequences such as `g b`, and combinations with Ctrl or Cmd.
//
// Promises: the innermost place that knows a key gets it; while somebody types, only combinations and Escape
// count; what Space presses is pressed by it; single letters can be switched off (WCAG 2.1.4), and then a sequence is off too. Leaves out: what
// keys do, and their names for people.

/**
 * @typedef {Record<string, (event: KeyboardEvent) => void | boolean>} Keys A handler that returns false
 * leaves the key to the next.
 */

/** How long the second key of a sequence is waited for. */
const SEQUENCE = 1_200;
/** Letters that go on for as long as they are held. */
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
    // A key that is held would send what its first press has armed.
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
     * Adds the keys of a place above those that are there.
     *
     * @param {Keys} keys
     * @returns {() => void} Takes them away.
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
  // On a layout of other letters a key is named by where it is.
  const letter = key.length === 1 && key > "~" ? event.code.replace(/^Key/, "") : key;
  if (event.ctrlKey || event.metaKey) return `Mod+${letter.toLowerCase()}`;
  if (key.length === 1) return event.shiftKey && /[a-z]/i.test(key) ? `Shift+${key.toLowerCase()}` : key;
  return event.shiftKey ? `Shift+${key}` : key;
}

/** Whether Space presses what has the focus. @param {EventTarget | null} target */
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
