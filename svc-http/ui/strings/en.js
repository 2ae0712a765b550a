// Every sentence of the board, by area. Only this file is imported elsewhere, so that another language can
// stand for it.

export { live, places, shell, signIn } from "./shell.js";
export { names } from "./names.js";
export {
  answers,
  arrivals,
  cannotAnswer,
  emptyLanes,
  inboxReasons,
  lanes,
  leases,
  limits,
  needs,
  priorityText,
  states,
} from "./lanes.js";
export { plural } from "./plural.js";
export { problemParts, ways, waysOut } from "./problems.js";
export { defects, pinned, verified } from "./verify.js";
export { andMore, blocks, closes, sentence, unblocks } from "./why.js";
