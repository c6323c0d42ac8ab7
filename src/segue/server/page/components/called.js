// @ts-check
/** The calls of an agent that is a tool, below the call of it. */
import { t } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { sentence } from "../state/failures.js";
import { readTrace } from "../state/trace.js";
import { turnOfTrace } from "../state/turn.js";
import { CallView } from "./call.js";

/** @import { Turn } from "../state/types.js" */

/** Milliseconds after which the calls of an agent that works are read again. */
const AGAIN = 2_000;

/** @param {{ task: string, isActive: boolean }} props */
export function Called({ task, isActive }) {
  const [turn, setTurn] = useState(/** @type {Turn | null} */ (null));
  const [problem, setProblem] = useState("");
  const read = async () => {
    try {
      setTurn(turnOfTrace(await readTrace(task)));
      setProblem("");
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => {
    void read();
    if (!isActive) return undefined;
    const timer = setInterval(() => void read(), AGAIN);
    return () => clearInterval(timer);
  }, [task, isActive]);
  if (!turn) {
    return problem && html`<div class="value" role="alert">
      <p class="problem">${problem}</p>
      <button type="button" onClick=${read}>${t("turn.retry")}</button>
    </div>`;
  }
  return html`<div class="value">
    <h4>${t("call.agent", { agent: turn.agent })}</h4>
    ${turn.calls.map((each) => html`<${CallView} key=${each.key} call=${each} task=${task} isActive=${isActive} />`)}
  </div>`;
}
