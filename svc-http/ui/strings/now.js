// Texts of the Now screen and of an approval behind a link.

import { list } from "../pure/format.js";
import { plural } from "./plural.js";

export const now = {
  title: "Now",
  reading: "Looking what needs you…",
  nothing: "Nothing needs you now.",
  cut: "More reviews may be awaited of you than are told; those that are not told follow these.",
  part: (/** @type {string} */ count) => `Of your tasks, the budgets and findings of ${count} were looked at.`,
  gone: "Done, or not yours any more",
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
  lapsed: " held it, and has not renewed the claim.",
  silent: " holds it, and has not said that it works on it.",
  exceeded: (/** @type {string[]} */ limits) => `Nothing was left of its ${list(limits)}.`,
  handedIn: "Handed in by ",
  used: (/** @type {string} */ share) => `${share} of the limit that is nearest is used.`,
};

export const approval = {
  title: "Approval",
  reading: "Reading what is asked…",
  ended:
    "This link has ended: it is more than an hour old, or what it asks has been decided, or it is no link of this workspace.",
  over: "It has been decided; the link leads nowhere any more.",
  inTask: "In the task ",
  inChannel: " in ",
  from: (/** @type {string} */ handle) => `The link was handed to ${handle} and lasts until `,
};
