"""Conversations of the deterministic participants without a graph."""

from collections.abc import Sequence

from segue.core.conversation import Conversation, ConversationConfig, Role, UserOutput, Utterance
from segue.testing.rehearsal.participants import Backend, PersonaUser, Scenario, backend_of, load_workflow
from segue.testing.rehearsal.workflow import Call, Json, next_move

TURNS = 20


def replayed(backend: Backend, seed: int, calls: Sequence[tuple[str, Json]]) -> Json:
    """The backend's state after these calls, in their order."""
    state = backend.initial(seed)
    for name, arguments in calls:
        state = backend.call(state, name, arguments).state
    return state


class Talk:
    """A conversation of the rule-driven bot with a persona, or with a script."""

    def __init__(self, workflow: str, scenario: Scenario, seed: int = 0, script: Sequence[str] = ()) -> None:
        self.workflow = load_workflow(workflow)
        self.backend = backend_of(self.workflow)
        self.state: Json = self.backend.initial(seed)
        self.utterances: list[Utterance] = []
        self._config = ConversationConfig(workflow=workflow)
        self._user = PersonaUser(self.workflow, scenario.persona, seed)
        self._script = list(script)

    def run(self) -> "Talk":
        for turn in range(1, TURNS + 1):
            if self._hears_user(turn).ends:
                break
            while self._bot_calls(turn):
                pass
        return self

    @property
    def calls(self) -> list[tuple[str, Json]]:
        return [(u.action, u.action_input) for u in self.utterances if u.is_action]

    @property
    def user_said(self) -> list[str]:
        return [u.text for u in self.utterances if u.role is Role.USER]

    def _hears_user(self, turn: int) -> UserOutput:
        conversation = Conversation(conversation_id="c", config=self._config, utterances=tuple(self.utterances))
        output = UserOutput(text=self._script.pop(0) if self._script else self._user.reply(conversation))
        self._add(turn, Role.USER, text=output.said, ends=output.ends)
        return output

    def _bot_calls(self, turn: int) -> bool:
        """One move of the bot; whether it was a call."""
        move = next_move(self.workflow, self.utterances)
        if not isinstance(move, Call):
            self._add(turn, Role.BOT, text=move.text)
            return False
        call = {"action": move.name, "action_input": move.arguments}
        self._add(turn, Role.BOT, **call)
        response = self.backend.call(self.state, move.name, move.arguments)
        self.state = response.state
        self._add(turn, Role.API, **call, status_code=response.status_code, data=response.data)
        return True

    def _add(self, turn: int, role: Role, **fields: object) -> None:
        self.utterances.append(Utterance(index=len(self.utterances), turn=turn, role=role, **fields))  # type: ignore[arg-type]
