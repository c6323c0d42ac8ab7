"""The faults: each is a bug that was seen in an engine of this kind, and the tests that must turn red."""

from dataclasses import dataclass

ENGINE = "tests/lifecycle/"
DOCUMENT = "tests/documents/test_lifecycle_engine.py"


@dataclass(frozen=True)
class Mutant:
    """`old` stands in `file` exactly once and becomes `new`; then `tests` must fail."""

    bug: str
    file: str
    old: str
    new: str
    tests: str


CONVERSATION = "src/segue/lifecycle/engine.py"
EXECUTE_SUBTASK = "nodes/lifecycle.py"
SUBTASKS = "src/segue/core/lifecycle.py"

LIFECYCLE = (
    Mutant(
        "a paused and resumed engine stays paused",
        CONVERSATION,
        "self._change(self._paused_from, _T.ENGINE_RESUMED, {})",
        "self._own.append((_T.ENGINE_RESUMED, {}))",
        f"{DOCUMENT}::test_paused_while_scheduling_it_goes_back_to_scheduling",
    ),
    Mutant(
        "a resumed engine goes to executing wherever it was paused",
        CONVERSATION,
        "self._change(self._paused_from, _T.ENGINE_RESUMED, {})",
        "self._change(_S.EXECUTING, _T.ENGINE_RESUMED, {})",
        f"{DOCUMENT}::test_paused_while_scheduling_it_goes_back_to_scheduling",
    ),
    Mutant(
        "the pause is told only after the resume",
        CONVERSATION,
        "            if self._own:\n",
        "            if self._own and self._state is not _S.PAUSED:\n",
        f"{ENGINE}test_engine.py::test_the_pause_is_told_while_it_lasts_to_someone_who_waits_for_the_next_event",
    ),
    Mutant(
        "the resume is never told",
        CONVERSATION,
        "        self._own.append((kind, data))\n",
        "        self._own.extend([(kind, data)] * (kind is not _T.ENGINE_RESUMED))\n",
        f"{ENGINE}test_engine.py::test_paused_and_resumed_before_anyone_looks_both_are_told_and_nothing_is_lost",
    ),
    Mutant(
        "a pause is allowed in any state",
        CONVERSATION,
        "        if self._state not in _PAUSABLE:\n            return False\n        self._stopping",
        "        if False:\n            return False\n        self._stopping",
        f"{DOCUMENT}::test_after_five_events_the_engine_is_decomposing_and_cannot_be_paused",
    ),
    Mutant(
        "dependencies are ignored",
        SUBTASKS,
        "if task.step_id in runnable)",
        "if task.status is Status.PENDING)",
        f"{DOCUMENT}::test_lower_priorities_come_first_and_dependencies_before_that",
    ),
    Mutant(
        "priorities are ignored",
        SUBTASKS,
        "key=lambda task: task.priority)",
        "key=lambda task: 0)",
        f"{DOCUMENT}::test_lower_priorities_come_first_and_dependencies_before_that",
    ),
    Mutant(
        "a second run counts on: progress passes 1",
        CONVERSATION,
        "        self._run, self._state, self._restored = RunState(), _S.IDLE, None\n",
        "        self._state, self._restored = _S.IDLE, None\n",
        f"{DOCUMENT}::test_a_second_run_begins_anew_and_progress_never_passes_one",
    ),
    Mutant(
        "a restored run does everything again",
        "src/segue/lifecycle/run.py",
        '"steps": [task.model_dump(mode="json") for task in self.tasks],',
        '"steps": [{**task.model_dump(mode="json"), "status": "pending"} for task in self.tasks],',
        f"{ENGINE}test_interruption.py::test_left_after_any_event_exactly_the_rest_is_carried_out",
    ),
    Mutant(
        "a closed run leaves the engine executing",
        CONVERSATION,
        "            if self._state in _PAUSABLE:  # nobody follows the run any more\n",
        "            if False:\n",
        f"{DOCUMENT}::test_closed_in_the_middle_it_is_paused_and_goes_on_without_repeating",
    ),
    Mutant(
        "a closed run interrupts what is under way",
        CONVERSATION,
        "            await self._leave(at_once=False)\n",
        "            await self._leave(at_once=True)\n",
        f"{ENGINE}test_engine.py::test_closed_while_tasks_are_under_way_it_drains_them",
    ),
    Mutant(
        "a task is not carried out but slept through",
        EXECUTE_SUBTASK,
        "await graph.ainvoke(given, context=context, output_keys=SHOWN)",
        'await asyncio.sleep(0.01, {"messages": [], "result": dict(success=True, answer="", history=[], usage={})})',
        f"{DOCUMENT}::test_tasks_are_really_carried_out_with_tools",
    ),
    Mutant(
        "an illegal transition is only warned of",
        "src/segue/core/lifecycle.py",
        "        raise IllegalTransition(str(EngineState(old)), str(EngineState(new)))\n",
        "        pass\n",
        f"{DOCUMENT}::test_only_the_tables_moves_are_allowed",
    ),
    Mutant(
        "tasks over a hundred are silently dropped",
        SUBTASKS,
        "        raise InvalidPlan(\n"
        '            "There are {n} tasks, and the limit is {most}: combine some of them.", '
        "n=len(given), most=MOST_TASKS\n"
        "        )\n",
        "        given = given[:MOST_TASKS]\n",
        f"{ENGINE}test_run.py::test_too_many_tasks_are_named_in_the_error_and_none_is_dropped",
    ),
    Mutant(
        "a task's timeout is never enforced",
        EXECUTE_SUBTASK,
        "asyncio.timeout(task.timeout)",
        "asyncio.timeout(None)",
        f"{DOCUMENT}::test_a_tasks_timeout_is_enforced",
    ),
    Mutant(
        "two runs at once are not refused",
        CONVERSATION,
        '        if self._live:\n            raise EngineBusy(self._state, "a run is under way, wait',
        '        if False:\n            raise EngineBusy(self._state, "a run is under way, wait',
        f"{DOCUMENT}::test_a_second_run_at_once_is_refused_and_changes_nothing",
    ),
    Mutant(
        "a failed task stops the others",
        EXECUTE_SUBTASK,
        "        except Failed as failed:\n",
        "        except ZeroDivisionError as failed:\n",
        f"{ENGINE}test_run.py::test_one_failure_stops_only_what_needs_it",
    ),
    Mutant(
        "what needs a failed task is forgotten",
        "nodes/lifecycle.py",
        "    lost = unreachable_tasks(tasks)\n",
        "    lost = dict[str, list[str]]()\n",
        f"{ENGINE}test_run.py::test_one_failure_stops_only_what_needs_it",
    ),
    Mutant(
        "the database runs ahead of what was told",
        "nodes/lifecycle.py",
        "        await gate.wait(runtime)\n",
        "",
        f"{ENGINE}test_engine.py::test_the_background_comes_no_further_than_what_was_told",
    ),
    Mutant(
        "two characters of Chinese are not found",
        "src/segue/passages.py",
        """f" {' '.join(run[0])} \"""",
        "run[0]",
        "tests/lifecycle/test_run.py::test_two_characters_of_chinese_and_english_words_are_found_the_best_first",
    ),
)

FILES = "src/segue/memory/files.py"
EXCERPT = "src/segue/memory/folder.py"

MEMORY = (
    Mutant(
        "a round that runs again after a crash writes its entry twice",
        FILES,
        "block.entry.key == entry.key",
        "False",
        "tests/memory/test_files.py::test_entries_are_appended_and_one_key_is_written_once",
    ),
    Mutant(
        "writers do not wait for one another",
        FILES,
        "                lock.acquire()\n",
        "                pass\n",
        "tests/memory/test_files.py::test_a_file_that_another_writer_holds_says_so",
    ),
    Mutant(
        "a memory file is written in place",
        FILES,
        'return path.with_name(f".{path.name}.new")',
        "return path",
        "tests/memory/test_files.py::test_a_crash_in_the_middle_of_a_write_leaves_the_old_file",
    ),
    Mutant(
        "links out of the memory folder are followed",
        FILES,
        "if path.is_symlink():",
        "if False:",
        "tests/memory/test_files.py::test_links_are_not_followed",
    ),
    Mutant(
        "a text forges an entry of another task",
        "src/segue/memory/files.py",
        'text = _UNESCAPED.sub(r"\\1\\\\", _plain(entry.text))',
        "text = _plain(entry.text)",
        "tests/memory/test_files.py::test_a_text_cannot_forge_entries",
    ),
    Mutant(
        "whole memory files overflow the prompt",
        EXCERPT,
        "return excerpt.render() if excerpt.add(pieces) else None",
        "excerpt.add(pieces, 1e9)\n    return excerpt.render()",
        "tests/memory/test_files.py::test_beyond_the_budget_the_newest_and_the_relevant_are_read",
    ),
)

ROUNDS = "tests/graphs/test_controller_executor.py"

CONTROLLER = (
    Mutant(
        "the hook for the last round is never called",
        "nodes/control_decision.py",
        "if config.max_round is not None and state",
        "if False and state",
        f"{ROUNDS}::test_the_hook_for_the_last_round_fires_after_exactly_so_many_rounds",
    ),
    Mutant(
        "a hook that is configured is not called",
        "nodes/control_decision.py",
        "config.on_reach_max_round or on_reach_max_round",
        "on_reach_max_round",
        f"{ROUNDS}::test_the_hook_for_the_last_round_can_be_replaced",
    ),
    Mutant(
        "an error in writing memory is looked at by nobody",
        "nodes/control_decision.py",
        'return error_text(error, state["language"])',
        'return ""',
        f"{ROUNDS}::test_the_controller_sees_that_memory_cannot_be_written",
    ),
    Mutant(
        "the plan is overwritten by the model's copy of it",
        "nodes/control_decision.py",
        "merged = keep_finished(old, drafted)",
        "merged = drafted",
        f"{ROUNDS}::test_a_new_plan_keeps_what_is_finished",
    ),
    Mutant(
        "whole memory goes into the controller's prompt",
        "nodes/control_decision.py",
        "memory = newest_part(_memory(state), room // 2)",
        "memory = _memory(state)",
        f"{ROUNDS}::test_memory_that_is_too_long_is_shortened",
    ),
    Mutant(
        "a round's entry has a new key whenever it is written",
        "nodes/control_decision.py",
        'work, branch, text, state["trace_id"])',
        "work, branch, text, work.services.ids.trace())",
        f"{ROUNDS}::test_a_write_that_is_repeated_after_a_crash_changes_nothing",
    ),
)

REPLY_STREAM = "src/segue/runtime/reply.py"
PARTS = "tests/runtime/test_reply.py::test_the_pieces_of_a_text_make_its_answer"
STREAMS = "tests/server/test_reply_streams.py"

REPLIES = (
    Mutant(
        "a banner is taken for reasoning",
        REPLY_STREAM,
        "event: Phase | Notice) -> Iterator[Part]:\n        yield event",
        "event: Phase | Notice) -> Iterator[Part]:\n        yield from self._add(Kind.THOUGHT, event.content)",
        f"{STREAMS}::test_a_banner_is_not_reasoning",
    ),
    Mutant(
        "another attempt discards the texts before calls",
        REPLY_STREAM,
        "        self._kept = len(self.whole)\n",
        "        self._kept = 0\n",
        PARTS,
    ),
    Mutant(
        "a text before calls that was not streamed is left out",
        REPLY_STREAM,
        "        yield from self._add(Kind.TEXT, whole[len(self._text.pending) :], trace_id)\n",
        "",
        PARTS,
    ),
    Mutant(
        "what a part of the task said is taken for the answer's",
        REPLY_STREAM,
        " and not (event.step_id or event.parent_id)",
        "",
        f"{STREAMS}::test_a_text_before_calls_is_shown_once",
    ),
    Mutant(
        "what was streamed before comes again with what was said",
        REPLY_STREAM,
        "without_said(self.task.said, event.content) if self._first else event.content",
        "event.content",
        PARTS,
    ),
)

ALL = (*LIFECYCLE, *MEMORY, *CONTROLLER, *REPLIES)
