// Actions on memory blocks: creating, renaming, deleting.
//
// Not here: editing the text of a block (panels/block.js).

import { leaves } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */

/** @type {Action[]} */
export const memory = [
  {
    id: "create_memory_block",
    op: "create_memory_block",
    on: "workspace",
    isFirst: true,
    when: () => true,
    fill: () => ({}),
    fields: ["label", "value", "limit", "read_only"],
    leaves: leaves("MemoryBlockCreated", (payload, input) => payload.label === input.label),
  },
  {
    id: "set_memory_block",
    op: "set_memory_block",
    on: "memory_block",
    isMain: true,
    when: () => true,
    // Prevents overwriting a version that the user has not seen.
    fill: ({ id, version }) => ({ block_id: id, expected_version: version }),
    fields: ["label", "limit", "read_only"],
    now: ({ label, limit, read_only }) => ({ label, limit, read_only }),
    leaves: leaves(
      "MemoryBlockUpdated",
      ({ block_id, version }, input) => block_id === input.block_id && version === input.expected_version + 1,
    ),
  },
  {
    id: "delete_memory_block",
    op: "delete_memory_block",
    on: "memory_block",
    isMain: true,
    confirm: "press",
    when: () => true,
    fill: ({ id }) => ({ block_id: id }),
    leaves: leaves("MemoryBlockDeleted", ({ block_id }, input) => block_id === input.block_id),
  },
];
