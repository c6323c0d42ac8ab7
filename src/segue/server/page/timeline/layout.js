// @ts-check
/** Where everything stands on the strip: the marks of the shown session, and the turns of its other branches. */

/** @import { Branch } from "../state/types.js" */
/** @import { Happened, Snapshot } from "./data.js" */
/**
 * @typedef {{ x: number, kind: string, failed: boolean, happened: Happened }} Mark
 * @typedef {{ entry: Snapshot, turn: number, x: number, width: number, marks: Mark[], isFirst: boolean }} Point
 * @typedef {{ turn: number, x: number, width: number, text: string, at: number }} Message
 * @typedef {{ session: string, turn: number, x: number, y: number }} Stop a turn of another branch
 * @typedef {{ points: Point[], messages: Message[], stops: Stop[], lines: string[], lanes: number, width: number,
 *   end: number, size: number }} Layout
 */

/** Pixels: the least and the most of a mark, what a message has at least, and what is left at both ends. */
const LEAST = 6;
const WIDEST = 20;
const MESSAGE = 84;
const MARGIN = 12;
/** Of a point and of a message, in marks: the room before it. */
const BEFORE_POINT = 0.5;
const BEFORE_MESSAGE = 1.2;
/** Pixels: the first lane's middle, and from one lane to the next. */
export const LANE = 30;
export const NEXT_LANE = 20;

/** @type {Record<string, string>} */
const KINDS = { read_only: "read", effect: "effect", undone: "undone", unknown: "unknown", not_run: "skipped" };
const OWN = new Set(["message", "plan", "answer", "question", "approval", "error", "cancelled", "user", "bot"]);

/** What a mark shows. @param {Happened} happened */
export function kindOf({ type, kind = "" }) {
  if (type === "call") return KINDS[kind] ?? "read";
  return OWN.has(type) ? type : "other";
}

/**
 * @param {Snapshot[]} entries
 * @param {{ branches: Branch[], session: string, width: number }} shown
 * @returns {Layout}
 */
export function layOut(entries, { branches, session, width }) {
  const groups = groupsOf(entries);
  const units = groups.reduce((sum, { marks, isFirst }) => sum + room(marks) + (isFirst ? BEFORE_MESSAGE : 0), 0);
  const size = Math.min(WIDEST, Math.max(LEAST, (width - 2 * MARGIN - MESSAGE / 2) / Math.max(units, 1)));
  /** @type {Message[]} */
  const messages = [];
  let x = MARGIN;
  const points = groups.map(({ entry, turn, marks, isFirst }) => {
    const before = messages.length ? BEFORE_MESSAGE * size : 0;
    if (isFirst) x = beginMessage(messages, { turn, entry, marks, x: x + before });
    const start = x;
    x += room(marks) * size;
    const placed = marks.map((mark, place) => ({ ...mark, x: start + (place + BEFORE_POINT) * size }));
    return { entry, turn, x: start, width: room(marks) * size, marks: placed, isFirst };
  });
  endMessage(messages, x);
  const end = points.at(-1);
  const tracks = tracksOf(branches, session, endsOf(points));
  const far = Math.max(x, (messages.at(-1)?.x ?? 0) + MESSAGE, ...tracks.stops.map((stop) => stop.x));
  return { points, messages, ...tracks, end: end ? end.x + end.width : MARGIN, width: far + MARGIN, size };
}

/** @param {unknown[]} marks */
const room = (marks) => Math.max(marks.length, 1) + BEFORE_POINT;

/**
 * The marks up to each snapshot; what the newest one has not seen stands behind its own.
 *
 * @param {Snapshot[]} entries
 */
function groupsOf(entries) {
  const turns = new Map(entries.map((entry) => [entry.task_id, entry.turn]));
  /** @type {{ entry: Snapshot, turn: number, marks: Omit<Mark, "x">[], isFirst: boolean }[]} */
  const groups = [];
  for (const entry of entries) {
    const marks = [...entry.happened, ...entry.happened_since].map(markOf);
    const before = groups.at(-1);
    const late = marks.filter(({ happened }) => before && turns.get(happened.task_id) === before.turn);
    const isFirst = before?.turn !== entry.turn;
    if (before && isFirst) before.marks.push(...late); // how a turn failed is stored with the next one
    const own = isFirst ? marks.filter((each) => !late.includes(each)) : marks;
    groups.push({ entry, turn: entry.turn, marks: own, isFirst });
  }
  return groups;
}

/** @param {Happened} happened */
function markOf(happened) {
  return { kind: kindOf(happened), failed: happened.outcome === "error", happened };
}

/**
 * @param {Message[]} messages
 * @param {{ turn: number, entry: Snapshot, marks: Omit<Mark, "x">[], x: number }} begun
 */
function beginMessage(messages, { turn, entry, marks, x }) {
  const last = messages.at(-1);
  const start = last ? Math.max(x, last.x + MESSAGE) : x;
  endMessage(messages, start);
  const said = marks.find(({ happened }) => happened.type === "message")?.happened;
  messages.push({ turn, x: start, width: 0, text: said?.text ?? "", at: said?.at ?? entry.created_at });
  return start;
}

/** @param {Message[]} messages @param {number} x */
function endMessage(messages, x) {
  const last = messages.at(-1);
  if (last) last.width = Math.max(x, last.x + MESSAGE) - last.x;
}

/** Where each turn of the shown session ends. @param {Point[]} points */
function endsOf(points) {
  return new Map(points.map((point) => [point.turn, { begin: point.x, end: point.x + point.width }]));
}

/** The session that made a turn of a branch. @param {Branch[]} branches @param {Branch} branch @param {number} turn */
function owner(branches, branch, turn) {
  let made = branch;
  while (turn < made.turn) {
    const parent = branches.find((each) => each.session_id === made.parent);
    if (!parent) break;
    made = parent;
  }
  return made.session_id;
}

/**
 * A lane for each other branch, which leaves the lane of the turn that it follows.
 *
 * @param {Branch[]} branches
 * @param {string} session
 * @param {Map<number, { begin: number, end: number }>} ends
 */
function tracksOf(branches, session, ends) {
  const own = branches.find((each) => each.session_id === session);
  /** @type {Map<string, { x: number, y: number }>} by session and turn */
  const placed = new Map();
  for (const [turn, { end }] of ends) if (own) placed.set(`${owner(branches, own, turn)} ${turn}`, { x: end, y: LANE });
  /** @type {Stop[]} */
  const stops = [];
  /** @type {string[]} */
  const lines = [];
  let lanes = 1;
  for (const branch of own ? branches : []) {
    const own = trackOf(branches, branch, LANE + lanes * NEXT_LANE, placed);
    stops.push(...own.map(({ stop }) => stop));
    lines.push(...own.map(({ line }) => line));
    if (own.length) lanes += 1;
  }
  return { stops, lines, lanes };
}

/**
 * The turns of a branch that no lane has yet, each with the line that leads to it.
 *
 * @param {Branch[]} branches
 * @param {Branch} branch
 * @param {number} y
 * @param {Map<string, { x: number, y: number }>} placed
 */
function trackOf(branches, branch, y, placed) {
  /** @type {{ stop: Stop, line: string }[]} */
  const track = [];
  let from = { x: MARGIN, y: LANE };
  for (let turn = 1; turn <= branch.turns; turn += 1) {
    const key = `${owner(branches, branch, turn)} ${turn}`;
    if (!placed.has(key)) {
      const stop = { session: branch.session_id, turn, x: from.x + MESSAGE / 2, y };
      track.push({ stop, line: curve(from, stop) });
      placed.set(key, stop);
    }
    from = placed.get(key) ?? from;
  }
  return track;
}

/** @param {{ x: number, y: number }} from @param {{ x: number, y: number }} to */
function curve(from, to) {
  if (from.y === to.y) return `M${from.x} ${from.y}H${to.x}`;
  const bend = Math.min(20, to.x - from.x);
  return `M${from.x} ${from.y}c${bend / 2} 0 ${bend / 2} ${to.y - from.y} ${bend} ${to.y - from.y}H${to.x}`;
}
