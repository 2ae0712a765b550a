// Texts of Markdown bodies: placeholders for hidden content, and labels of elements.

import { number } from "../pure/format.js";
import { plural } from "./plural.js";

export const markdown = {
  more: (/** @type {number} */ count) => `+ ${number(count)} more`,
  showAll: (/** @type {number} */ lines) => plural(lines, { one: "Show all of it", other: "Show all # lines" }),
  showLess: "Show less",
  code: "Code",
  table: "Table",
  diff: "Diff",
  before: "Before",
  after: "After",
  done: "Done",
  notDone: "Not done",
};
