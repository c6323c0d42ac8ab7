"""Participants that need no more than a model and prompts, and the referee's controllers that need neither."""

from segue.core.participants import Participants

from ..controllers import ApiDuplication, SessionLength
from .http_api import HttpAPI
from .person import PersonBot, PersonUser
from .react_bot import ReactBot
from .scripted import DummyAPI, DummyBot, DummyUser, ScriptedUser
from .simulated_api import SimulatedAPI
from .simulated_user import OutOfWorkflowUser, SimulatedUser
from .tools_api import ToolsAPI

BUILTIN = Participants()
BUILTIN.users.register("dummy_user", DummyUser)
BUILTIN.users.register("input_user", PersonUser)
BUILTIN.users.register("scripted_user", ScriptedUser)
BUILTIN.users.register("llm_profile", SimulatedUser)
BUILTIN.users.register("llm_oow", OutOfWorkflowUser)
BUILTIN.bots.register("dummy_bot", DummyBot)
BUILTIN.bots.register("input_bot", PersonBot)
BUILTIN.bots.register("react_bot", ReactBot)
BUILTIN.apis.register("dummy_api", DummyAPI)
BUILTIN.apis.register("tools", ToolsAPI)
BUILTIN.apis.register("llm", SimulatedAPI)
BUILTIN.apis.register("request", HttpAPI)
BUILTIN.controllers.register("api_duplication", ApiDuplication)
BUILTIN.controllers.register("session_length", SessionLength)
