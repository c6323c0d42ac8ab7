// @ts-check
/**
 * The shapes that the API sends and the page keeps.
 *
 * @typedef {Record<string, unknown>} Json
 * @typedef {{ type: string, task_id: string, seq?: number, trace_id?: string, step_id?: string, iteration?: number,
 *   timestamp?: number, truncated?: boolean } & Record<string, any>} Frame
 * @typedef {{ task_id: string, session_id: string, agent_id: string, user_id: string, mode: string, model: string,
 *   status: string, message: string, attachments?: Attachment[], error: string | null,
 *   result: Record<string, any> | null, rating: number | null,
 *   created_at: number, updated_at: number, html?: string | null }} TaskRow
 * @typedef {{ digest: string, name: string, media_type: string, size: number }} Attachment
 * @typedef {{ name: string, upload: (Attachment & { upload_id: string }) | null }} NextFile
 * @typedef {{ scope: string, idx: number, name: string, outcome: Json | null }} LedgerCall
 * @typedef {{ task: TaskRow, events: Frame[], calls: LedgerCall[], question: Question | null,
 *   next: { after_event: number, after_call: number } | null }} Trace
 * @typedef {{ session_id: string, title: string, message: string, mode: string, turns: number, status: string,
 *   updated_at: number, default_agent: string, root: string, agent_id: string, origin: string, pinned: boolean,
 *   archived: boolean }} SessionRow
 * @typedef {{ task_id: string, session_id: string, title: string, snippet: string, created_at: number }} Hit
 * @typedef {{ session: string, task: string, find?: () => Element | null }} Sought A turn, or what is found in it.
 * @typedef {{ session_id: string, parent: string | null, turn: number, turns: number, updated_at: number }} Branch
 *   A session that repeats its parent before a turn.
 * @typedef {{ session_id: string, checkpoint_id: string, effects: { task_id: string, name: string, arguments: Json,
 *   started_at: number, undo: string }[] }} BranchPreview
 * @typedef {{ agent_id: string, description: string, mode: string, modes: string[], model: string, default: boolean,
 *   suggestions: string[], reads_files: boolean, error: string,
 *   tools: { name: string, title: string, description: string, needs_approval: boolean }[] }} Agent
 *
 * @typedef {{ kind: string, name: string, call: number, trusted: boolean }} Source what a value came from
 * @typedef {{ index: number, name: string, arguments: Json, sources?: Record<string, Source[]>,
 *   doubted?: string[], decisions?: string[], reason?: string,
 *   refused?: string, approvals?: number, not_by_asker?: boolean }} AskedCall
 * @typedef {{ kind: string, interrupt_id: string, question?: string, choices?: string[], calls?: AskedCall[],
 *   problem?: string, until?: number | null, event?: string }} Question
 * @typedef {{ index: number, verdict: "approve" | "edit" | "reject" | "respond", arguments?: Json, original?: Json,
 *   reason?: string, always?: string, only?: Json, flow?: unknown,
 *   by?: { by: string, at: number, verdict: string }[] }} Verdict
 * @typedef {{ note: string, asked: string, plan?: boolean, calls: number, thinking: number }} Entry
 *   A steering message, the question of this interrupt, or the plan, behind so many calls and characters of thoughts.
 * @typedef {{ question: Question, verdicts: Verdict[] | null, answer: string | null }} Exchange
 * @typedef {{ task_id: string, session_id: string, agent_id: string, message: string, since: number, kind: string,
 *   question: string, calls: AskedCall[], problem: string, interrupt_id: string }} WaitingTask
 *
 * @typedef {{ key: string, scope: string, index: number, name: string, arguments: Json, result: Json | null,
 *   seconds: number, step: string, truncated: boolean,
 *   called?: string }} Call `called` is the task of an agent that is the tool
 * @typedef {{ id: string, description: string, status: string, note: string }} Step
 * @typedef {{ index: number, role: "USER" | "BOT" | "API", text?: string, action?: string, action_input?: Json,
 *   status_code?: number, data?: unknown, controller?: string, seconds?: number }} Utterance
 * @typedef {{ id: string, session: string, message: string, attachments: Attachment[], agent: string,
 *   mode: string, model: string, status: string, answer: string, html: string,
 *   written: string, draft: string, kept: number, writer: string, said: string[],
 *   thinking: string, mark: number, calls: Call[],
 *   utterances: Utterance[], goal: string, steps: Step[], pending: string[],
 *   question: Question | null, exchanges: Exchange[], entries: Entry[], error: string, rating: number | null,
 *   usage: { input: number, output: number, calls: number, cost?: number | null, currency?: string } | null,
 *   createdAt: number, updatedAt: number, idle: number, waiting: string,
 *   fallback: string, malformed: boolean, seq: number, connection: "" | "live" | "lost", detailed: boolean }} Turn
 *   One message, and what came of it. `written` is what streamed of the answer; of it `kept` characters
 *   stay when the call of the round `writer` is repeated. `draft` is that without the texts before calls, `said`,
 *   which are thoughts. `thinking` is what is known of the thoughts, `mark` its length at the last durable event;
 *   `seq` numbers that event. `pending` are notes on their way.
 */
export {};
