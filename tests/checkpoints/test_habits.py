"""What endpoints require of requests, as it is stored."""

from segue.checkpoints.habits import EndpointHabits

from .conftest import Store, opened

HERE, THERE = "http://127.0.0.1:8085/v1#qwen3", "https://example.com/v1#m"


async def test_habits_are_kept_by_endpoint_and_replaced(store: Store, address: str) -> None:
    habits = EndpointHabits(store)
    assert await habits.of(HERE) == []
    await habits.put(HERE, {"system_first", "one_system"})
    await habits.put(THERE, ["tool_names"])
    async with await opened(address) as again:
        assert await EndpointHabits(again).of(HERE) == ["one_system", "system_first"]
    await habits.put(HERE, [])
    assert await habits.of(HERE) == [] and await habits.of(THERE) == ["tool_names"]


async def test_a_row_that_cannot_be_read_is_none(store: Store) -> None:
    habits = EndpointHabits(store)
    await habits.put(HERE, ["system_first"])
    await store.write(lambda connection: connection.execute("UPDATE habits SET names = ?", ('{"a"',)))
    assert await habits.of(HERE) == []
