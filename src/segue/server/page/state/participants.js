// @ts-check
/** Conversations between a user, a bot and an API, whose task's message is their configuration. */

/** The mode of their tasks. */
export const CONVERSATION = "conversation";

/**
 * Who takes part, by the configuration; what it leaves out is the service's default.
 *
 * @param {string} message the configuration as JSON
 */
export function participantsOf(message) {
  const config = { user_mode: "dummy_user", bot_mode: "dummy_bot", api_mode: "dummy_api", ...JSON.parse(message) };
  return { user: config.user_mode, bot: config.bot_mode, api: config.api_mode };
}

/** Whether each turn is what it was in another conversation. @param {string} message the configuration as JSON */
export const isForced = (message) => Boolean(JSON.parse(message).reference);

/** Whether a person speaks next as one of the participants. @param {import("./types.js").Turn} turn */
export function isUtterance({ mode, question }) {
  return mode === CONVERSATION && question !== null && question.kind !== "approval";
}
