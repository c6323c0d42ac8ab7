"""Participants that need no more than a model and prompts."""

from segue.core.participants import Participants

from .dummies import DummyAPI, DummyBot, DummyUser

BUILTIN = Participants()
BUILTIN.users.register("dummy_user", DummyUser)
BUILTIN.bots.register("dummy_bot", DummyBot)
BUILTIN.apis.register("dummy_api", DummyAPI)
