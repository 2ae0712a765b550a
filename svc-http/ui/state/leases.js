// How long leases are in all, which nobody says.
//
// Promises: it is what was left when the lease was first seen, so that what is left of it can be told as a
// part; those that were seen longest ago are forgotten, so that a page can be open for weeks. Leaves
// out: when a lease ends, which tasks say.

const LEAST = 1_000;
/** More are never in sight. */
const MOST = 1_000;

export function createLeases() {
  /** @type {Map<string, {until: string, whole: number}>} */
  const known = new Map();
  /**
   * @param {any} thread
   * @param {number} left
   */
  return (thread, left) => {
    const lease = known.get(thread.id);
    if (lease && lease.until === thread.assignment_expires_at) return lease.whole;
    const whole = Math.max(left, LEAST);
    known.delete(thread.id);
    known.set(thread.id, { until: thread.assignment_expires_at, whole });
    const [oldest] = known.keys();
    if (known.size > MOST && oldest !== undefined) known.delete(oldest);
    return whole;
  };
}
