// The shapes that the pure modules share, as types alone: entities as the API answers them, and events.
// Fields that no pure module looks at are not written down; the schemas of the API have them all.

/** @typedef {Record<string, any>} Fields */
/** @typedef {{id: string, of: number, stale: boolean} & Fields} Entity what is known of a thing up to an LSN */

/**
 * @typedef {object} LogEvent an event as reads and frames have it
 * @property {number} lsn
 * @property {string} kind
 * @property {string} prev_hash
 * @property {string} content_hash
 * @property {Fields} payload
 * @property {{body: string, content: any[], metadata: Fields, unreadable: boolean, withdrawn: boolean} | null} [message]
 */

/** @typedef {{kind: string, value: string}} Item an item of a footprint */
/** @typedef {{repo: string | null, mode: string, items: Item[]}} Footprint */
/**
 * @typedef {object} Conflict something in the way of a thread
 * @property {string} reason
 * @property {Item | null} item
 * @property {string | null} holder
 * @property {string | null} lease_expires_at
 * @property {string} [thread_id]
 */
/** @typedef {{condition: string, detail: string, ids: string[]}} Reason what a close still needs */

/**
 * @typedef {object} Thread
 * @property {string} id
 * @property {string} channel_id
 * @property {string | null} parent_id
 * @property {string} title
 * @property {'open' | 'in_review' | 'closed' | 'archived'} state
 * @property {number} priority
 * @property {string[]} required_skills
 * @property {Footprint | null} footprint
 * @property {number} blocked
 * @property {boolean} has_result
 * @property {boolean} exhausted
 * @property {boolean} dead
 * @property {string | null} owner_id
 * @property {string | null} assignee_id
 * @property {string | null} claim_lease_id
 * @property {string | null} assignment_expires_at
 * @property {string | null} acknowledged_at
 * @property {boolean} cancelled
 * @property {string | null} created_by
 * @property {string} created_at
 * @property {number} lsn
 */

/**
 * @typedef {object} Gate an approval that was asked for
 * @property {string} id
 * @property {string} thread_id
 * @property {string} state
 * @property {boolean} needs_person
 * @property {string} requested_by
 * @property {string} requested_at
 * @property {string | null} expires_at
 */

/** @typedef {{member_id: string, kind: string, mayGrant?: boolean}} Me who is signed in; `mayGrant`: may accept approvals */
/**
 * @typedef {object} Alarm what became of a claim, until somebody takes the thread up again
 * @property {string} id the thread
 * @property {'unacknowledged' | 'lapsed'} reason
 * @property {string | null} claim_lease_id
 * @property {string | null} member_id
 * @property {string | null} owner_id
 * @property {string} at
 * @property {number} lsn
 */

/**
 * @typedef {string | {thread: string} | {member: string} | {channel: string} | {time: number} | {code: string}
 *   | {op: string, text: string}} Part a piece of a sentence: words, or what the view makes a link or a time of
 */

export {};
