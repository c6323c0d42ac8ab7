"""Permissions, with the version of the tool that was permitted."""

from segue.checkpoints.permissions import Permissions, grant
from segue.core.approval import Grant, PermissionRule
from segue.core.events import PermissionGranted

from .conftest import Store


async def test_a_permission_has_the_version_that_was_permitted_last(store: Store) -> None:
    permissions = Permissions(store)
    for version in ("old", "new"):
        event = PermissionGranted(task_id="t", agent_id="a", tool="pay", scope="session", version=version).json()
        await store.write(lambda connection, event=event: grant(connection, "s", event))
        assert await permissions.in_task("s", "a", "t") == [Grant(PermissionRule("pay"), "session", version)]
    (listed,) = await permissions.list("s")
    assert listed.version == "new"
    assert "version" not in listed.json()
