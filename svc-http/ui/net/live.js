// The one socket: a workspace's events, in order, without gaps, for as long as the page is open.
//
// Promises: an open socket is not believed: it is replaced when the log is known to be ahead of it for 3 s,
// or when it is silent while what is asked beside it is answered; without that answer one is offline; a gap too
// large to replay is reported as one; of a session that has ended nothing is asked. Leaves out: what the events mean.

/** @typedef {Record<string, any>} Frame An event, as the server sends it. */
/**
 * @typedef {{
 *   events: (frames: Frame[]) => void,
 *   gap: (lsn: number) => void,
 *   state: (state: "live" | "behind" | "offline", since?: number) => void,
 *   refused: (reason: string) => void,
 *   rewound: () => void,
 *   probe: (signal: AbortSignal) => Promise<number>,
 *   head: () => Promise<{lsn: number, hash: string}>,
 *   hashAt: (lsn: number) => Promise<string | null>,
 * }} Hooks `gap`: what happened up to there was not sent, and is to be read anew. `probe`: asks how far the log goes.
 * `head` and `hashAt`: the last event, and the hash of one, if one may see it.
 */

/** More than this is read anew, not replayed. */
const REPLAY_MAX = 2_000;
/** How long the log may be ahead of the socket, in milliseconds. */
const AHEAD_MAX = 3_000;
/** After so long a silence the socket is tried. */
const SILENCE_MAX = 30_000;
/**
 * A socket that was replaced because the log was ahead is not replaced for that again so soon: what one may
 * not see is ahead, too.
 */
const REPLACE_EVERY = 30_000;
/** How long an answer, or that a socket opens, is waited for. */
const PROBE_MAX = 10_000;
const BACK_OFF = { first: 1_000, most: 30_000 };

/**
 * @param {{address: () => URL | null, workspaceId: string, hooks: Hooks, afterId: number}} setting
 */
export function createLive({ address, workspaceId, hooks, afterId }) {
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {string | null} */
  let resumeToken = null;
  let position = afterId;
  /** An event that was there, by which the log is known again. @type {{lsn: number, hash: string} | null} */
  let known = null;
  let target = afterId;
  let failures = 0;
  let heardAt = performance.now();
  /** The same by the clock on the wall, which may be set, and is what people read. */
  let heardOn = Date.now();
  /** How far that clock is from the other one, which stops while the machine sleeps. */
  let apart = heardOn - heardAt;
  /** When the socket was made: before it has begun, its silence means nothing. */
  let openedAt = 0;
  let probedAt = 0;
  let replacedAt = -Infinity;
  let aheadSince = 0;
  let isAcknowledged = false;
  let isClosed = false;
  let isEnded = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retry;
  const pulse = setInterval(beat, 1_000);

  function open() {
    clearTimeout(retry);
    const url = address();
    if (isClosed || isEnded || !url) return;
    url.protocol = url.protocol.replace("http", "ws");
    const opened = new WebSocket(url);
    socket = opened;
    isAcknowledged = false;
    openedAt = performance.now();
    opened.addEventListener("open", () => opened.send(firstFrame()));
    opened.addEventListener("message", ({ data }) => opened === socket && receive(String(data)));
    opened.addEventListener("close", ({ code, reason }) => opened === socket && closed(code, reason));
  }

  function firstFrame() {
    const begin = resumeToken
      ? { resume_token: resumeToken }
      : { after_id: position, filter: { workspace_id: workspaceId } };
    return JSON.stringify({ ...begin, positions: true });
  }

  /** @param {string} text */
  function receive(text) {
    heardAt = performance.now();
    heardOn = Date.now();
    const frame = JSON.parse(text);
    if (frame.type === undefined) return received(frame);
    if (frame.resume_token) resumeToken = frame.resume_token;
    if (frame.type === "subscribe_ack") return begun(frame);
    if (frame.type === "replay_truncated") return truncated(frame);
    if (frame.type === "must_refetch")
      return frame.room_lsn < position ? rewound() : skipTo(frame.room_lsn);
    if (frame.type === "position") {
      reach(frame.after_id);
      settle();
    }
  }

  /** @param {Frame} event */
  function received(event) {
    if (event.lsn <= position) return;
    reach(event.lsn);
    // The token stands for an older position, from which the same would be sent again.
    resumeToken = null;
    known = { lsn: event.lsn, hash: event.content_hash };
    hooks.events([event]);
    settle();
  }

  /** @param {Frame} frame */
  function begun({ after_id, room_lsn }) {
    isAcknowledged = true;
    failures = 0;
    target = Math.max(target, room_lsn);
    void recognize();
    if (room_lsn - after_id > REPLAY_MAX) return skipTo(room_lsn);
    reach(after_id);
    settle();
  }

  /** While the socket was gone an older copy may have been restored, and have grown past what was heard. */
  async function recognize() {
    const before = known;
    try {
      const now = before ? { ...before, hash: await hooks.hashAt(before.lsn) } : await hooks.head();
      if (isClosed || isEnded || !now.hash) return;
      if (before && before.hash !== now.hash) rewound();
      else known ??= { lsn: now.lsn, hash: now.hash };
    } catch {
      // It is looked at again with the next socket.
    }
  }

  /** @param {Frame} frame */
  function truncated({ after_id, room_lsn }) {
    if (room_lsn - after_id > REPLAY_MAX) return skipTo(room_lsn);
    socket?.send(JSON.stringify({ after_id }));
  }

  /**
   * Goes on from a later position; what lies between is read anew by whoever shows it.
   *
   * @param {number} lsn
   */
  function skipTo(lsn) {
    resumeToken = null;
    position = Math.max(position, lsn);
    target = Math.max(target, lsn);
    hooks.state("behind");
    hooks.gap(position);
    replace();
  }

  /** The log is shorter than what was heard of it: an older copy was restored, and all that is known is of no log. */
  function rewound() {
    close();
    hooks.state("behind");
    hooks.rewound();
  }

  /** @param {number} lsn */
  function reach(lsn) {
    position = Math.max(position, lsn);
    target = Math.max(target, position);
  }

  function settle() {
    if (position >= target) aheadSince = 0;
    hooks.state(position >= target ? "live" : "behind");
  }

  /** @param {number} code @param {string} reason */
  function closed(code, reason) {
    lost();
    // A token that has lasted too long would be refused again and again.
    if (code !== 1000) resumeToken = null;
    if (code === 1008) hooks.refused(reason);
  }

  /** There is no socket any more, until one is tried again. */
  function lost() {
    const old = socket;
    socket = null;
    if (isClosed) return;
    old?.close();
    hooks.state("offline", heardOn);
    failures += 1;
    const longest = Math.min(BACK_OFF.most, BACK_OFF.first * 2 ** (failures - 1));
    retry = setTimeout(open, longest / 2 + Math.random() * (longest / 2));
  }

  function leave() {
    clearTimeout(retry);
    const old = socket;
    socket = null;
    old?.close();
  }

  function replace() {
    leave();
    open();
  }

  /** Looks once a second whether the socket is still to be believed. */
  function beat() {
    const now = performance.now();
    const moved = Date.now() - now - apart;
    apart += moved;
    // The machine has slept, or its clock was set: what was known of either is doubtful.
    if (Math.abs(moved) > SILENCE_MAX) probe();
    if (!socket || socket.readyState !== WebSocket.OPEN) return stuck(now);
    if (position < target && aheadSince === 0) aheadSince = now;
    if (position >= target) aheadSince = 0;
    const isSilentFor = now - Math.max(heardAt, openedAt);
    if (
      aheadSince &&
      now - aheadSince > AHEAD_MAX &&
      isSilentFor > AHEAD_MAX &&
      now - replacedAt > REPLACE_EVERY
    ) {
      aheadSince = 0;
      replacedAt = now;
      hooks.state("behind");
      return replace();
    }
    if (now - Math.max(heardAt, openedAt, probedAt) > SILENCE_MAX) probe();
  }

  /** @param {number} now */
  function stuck(now) {
    const isConnecting = socket?.readyState === WebSocket.CONNECTING;
    if (isConnecting && now - openedAt > PROBE_MAX) lost();
  }

  let isProbing = false;
  function probe() {
    if (isProbing || isClosed || isEnded) return;
    isProbing = true;
    probedAt = performance.now();
    hooks.probe(AbortSignal.timeout(PROBE_MAX)).then(
      (lsn) => {
        isProbing = false;
        if (lsn > target) target = lsn;
        if (!isAcknowledged) replace();
      },
      ({ status }) => {
        isProbing = false;
        const isReached = status > 0 && status < 500;
        if (socket && !isReached && heardAt < probedAt) lost();
      },
    );
  }

  function close() {
    isClosed = true;
    clearInterval(pulse);
    leave();
  }

  open();
  return {
    /** An answer of the service said how far the log goes. @param {number} lsn */
    ahead(lsn) {
      if (lsn > target) target = lsn;
    },
    /** The page was woken: the socket may be dead without having been told. */
    wake() {
      failures = 0;
      if (!socket) return open();
      probe();
    },
    /** The session has ended: until there is another one, no socket is. */
    end() {
      isEnded = true;
      leave();
    },
    /** The session is another one, and so has to be the socket. */
    renew() {
      isEnded = false;
      failures = 0;
      replace();
    },
    position: () => position,
    close,
  };
}
