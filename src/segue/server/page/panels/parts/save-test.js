// @ts-check
/** The session as a regression test: a cassette, and a test that replays it with the agents of the agents file. */
import { Icon } from "../../components/icon.js";
import { request } from "../../state/api.js";
import { save } from "../../state/export.js";
import { attempt } from "../../state/failures.js";
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import "./loaded.js"; // its style sheets
import { sessionPath } from "../../timeline/data.js";

/** @param {{ session: string }} props */
export function SaveTest({ session }) {
  const [saved, setSaved] = useState("");
  const [isBusy, setBusy] = useState(false);
  const write = async () => {
    setBusy(true);
    const text = await attempt(async () => (await request("GET", `${sessionPath(session)}/cassette`)).text());
    setBusy(false);
    if (!text) return;
    const name = session.replace(/\W+/g, "_");
    save(`${name}.cassette.yaml`, "application/yaml", text);
    save(`test_${name}.py`, "text/x-python", testOf(name));
    setSaved(name);
  };
  return html`<section class="save-test">
    <button type="button" disabled=${isBusy} onClick=${write}><${Icon} name="check" />${t("test.save")}</button>
    <p class="about" role="status">${t(saved ? "test.saved" : "test.about", { name: saved })}</p>
    ${saved && html`<pre>${`pytest test_${saved}.py -o segue_agents=agents.toml`}</pre>`}
  </section>`;
}

/** @param {string} name */
function testOf(name) {
  return `"""The recorded session is replayed without a model and without tools; the first difference fails the test."""

from pathlib import Path


def test_${name}(segue_replay):
    segue_replay(Path(__file__).with_name("${name}.cassette.yaml"))
`;
}
