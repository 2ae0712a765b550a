// Types that the pure modules share: entities as the API returns them, and events.
//
// Not here: fields that no pure module reads; the schemas of the API have them all.

/** @typedef {Record<string, any>} Fields */
/** @typedef {{id: string, of: number, stale: boolean} & Fields} Entity an entity as known up to an LSN */

/**
 * @typedef {object} LogEvent an event as in reads and frames
 * @property {number} lsn
 * @property {string} kind
 * @property {string} prev_hash
 * @property {string} content_hash
 * @property {Fields} payload
 * @property {{body: string, content: any[], metadata: Fields, unreadable: boolean, withdrawn: boolean} | null} [message]
 */

/** @typedef {{kind: string, value: string}} Item one item of a footprint */
/** @typedef {{repo: string | null, mode: string, items: Item[]}} Footprint */
/**
 * @typedef {object} Conflict an obstacle to claiming a thread
 * @property {string} reason
 * @property {Item | null} item
 * @property {string | null} holder
 * @property {string | null} lease_expires_at
 * @property {string} [thread_id]
 */
/**
 * @typedef {{condition: string, detail: string, ids: string[]}} Reason a requirement that a close still needs
 */

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
 * @typedef {object} Gate an approval request
 * @property {string} id
 * @property {string} thread_id
 * @property {string} state
 * @property {boolean} needs_person
 * @property {string} requested_by
 * @property {string} requested_at
 * @property {string | null} expires_at
 */

/**
 * @typedef {{member_id: string, kind: string, mayGrant?: boolean}} Me the signed-in member; `mayGrant`:
 * whether the session may accept approvals
 */
/**
 * @typedef {object} Alarm a problem of a claim, until the thread is claimed again
 * @property {string} id the id of the thread
 * @property {'unacknowledged' | 'lapsed'} reason
 * @property {string | null} claim_lease_id
 * @property {string | null} member_id
 * @property {string | null} owner_id
 * @property {string} at
 * @property {number} lsn
 */

/**
 * @typedef {string | {thread: string} | {member: string} | {channel: string} | {time: number} | {code: string}
 *   | {op: string, text: string}} Part a part of a sentence: text, or a value that the view formats as a link
 * or a time
 */

export {};
