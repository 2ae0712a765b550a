// The page's only socket: receives the events of a workspace in order and without gaps.
//
// Guarantees: the socket is replaced when the log has been ahead of it for 3 s, or when the server answers a
// probe before it acknowledges the subscription; if a probe gets no answer, the state is offline; a gap too
// large to replay is reported; after the session has ended, nothing is sent. Not here: the meaning of events.

/** @typedef {Record<string, any>} Frame An event as the server sends it. */
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
 * }} Hooks `gap`: events up to this position were not sent, and their data has to be read again. `probe`:
 * reads the position of the log. `head` and `hashAt`: the last event, and the hash of one event, if it is
 * visible.
 */

/** Maximum events that are replayed; a larger gap is read again. */
const REPLAY_MAX = 2_000;
/** Maximum milliseconds that the log may be ahead of the socket. */
const AHEAD_MAX = 3_000;
/** Milliseconds of silence after which the connection is probed. */
const SILENCE_MAX = 30_000;
/**
 * Minimum milliseconds between replacements because the log is ahead; invisible events advance the log too.
 */
const REPLACE_EVERY = 30_000;
/** Maximum milliseconds to wait for the answer to a probe, or for a socket to open. */
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
  /**
   * An event that was received, by whose hash the log is recognized after a reconnect.
   *
   * @type {{lsn: number, hash: string} | null}
   */
  let known = null;
  let target = afterId;
  let failures = 0;
  let heardAt = performance.now();
  /** Time of the last message by the wall clock, which is shown to the user but may be changed. */
  let heardOn = Date.now();
  /** Offset of the wall clock from the monotonic clock, which stops while the machine sleeps. */
  let apart = heardOn - heardAt;
  /** Time at which the socket was created; silence before that means nothing. */
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
    // The resume token refers to an older position, from which this event would be sent again.
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

  /** Detects a restored older copy of the log that has since grown past the last received position. */
  async function recognize() {
    const before = known;
    try {
      const now = before ? { ...before, hash: await hooks.hashAt(before.lsn) } : await hooks.head();
      if (isClosed || isEnded || !now.hash) return;
      if (before && before.hash !== now.hash) rewound();
      else known ??= { lsn: now.lsn, hash: now.hash };
    } catch {
      // The next socket checks again.
    }
  }

  /** @param {Frame} frame */
  function truncated({ after_id, room_lsn }) {
    if (room_lsn - after_id > REPLAY_MAX) return skipTo(room_lsn);
    socket?.send(JSON.stringify({ after_id }));
  }

  /**
   * Continues from a later position; the data in between is read again where it is shown.
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

  /**
   * Ends the subscription: the log is shorter than what was received of it, so an older copy was restored.
   */
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
    // A resume token that has expired would be refused on every attempt.
    if (code !== 1000) resumeToken = null;
    if (code === 1008) hooks.refused(reason);
  }

  /** Drops the socket, and schedules the next attempt. */
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

  /** Checks once a second whether the socket still works. */
  function beat() {
    const now = performance.now();
    const moved = Date.now() - now - apart;
    apart += moved;
    // The machine was asleep or its clock was changed, so the connection may be dead.
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
    /** Records the log position that a response reported. @param {number} lsn */
    ahead(lsn) {
      if (lsn > target) target = lsn;
    },
    /** Checks the connection after the page was woken: the socket may be dead without a close event. */
    wake() {
      failures = 0;
      if (!socket) return open();
      probe();
    },
    /** Closes the socket because the session has ended; `renew` opens another one. */
    end() {
      isEnded = true;
      leave();
    },
    /** Opens a new socket for a new session. */
    renew() {
      isEnded = false;
      failures = 0;
      replace();
    },
    position: () => position,
    close,
  };
}
