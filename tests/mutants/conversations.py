"""The faults of conversations: each is a bug of the document's own manager, and the tests that must turn red."""

from tests.mutants.mutants import Mutant

DOCUMENT = "tests/documents/test_conversation_manager.py"
BOT = "nodes/conversation.py"
RECORDS = "src/segue/core/conversation.py"
OUTCOME = "src/segue/testing/rehearsal/report.py"
STATISTICS = "src/segue/testing/rehearsal/report.py"
NUMBERS = "tests/rehearsal/test_report_numbers.py"

CONVERSATIONS = (
    Mutant(
        "the limit of calls lets one too many through",
        BOT,
        "len(conversation.actions) < conversation",
        "len(conversation.actions) <= conversation",
        f"{DOCUMENT}::test_an_action_limit_of_n_means_n_calls_and_then_the_default_response",
    ),
    Mutant(
        "the default response is not sent",
        BOT,
        "text=text, action",
        "text=output.text, action",
        f"{DOCUMENT}::test_an_action_limit_of_n_means_n_calls_and_then_the_default_response",
    ),
    Mutant(
        "the limit of turns lets one too many through",
        BOT,
        "conversation.turn >= conversation",
        "conversation.turn > conversation",
        f"{DOCUMENT}::test_a_turn_limit_of_n_means_n_answered_turns",
    ),
    Mutant(
        "the last user is left unanswered",
        "nodes/conversation.py",
        """return "FINISH" if state["end_reason"] else "BOT\"""",
        """return "BOT" if len(state["utterances"]) < 3 and not state["end_reason"] else "FINISH\"""",
        f"{DOCUMENT}::test_a_turn_limit_of_n_means_n_answered_turns",
    ),
    Mutant(
        "refused calls do not count",
        RECORDS,
        "tuple(u for u in self.utterances if u.is_action and u.turn == self.turn)",
        "tuple(u for u in self.results if u.turn == self.turn and not u.controller)",
        f"{DOCUMENT}::test_a_refused_call_counts_and_its_hint_is_the_result",
    ),
    Mutant(
        "[END] anywhere in a text ends the conversation",
        RECORDS,
        r'r"(?m)^[ \t]*\[END\][ \t]*$"',
        r'r"\[END\]"',
        f"{DOCUMENT}::test_only_the_user_ends_and_only_with_end_alone_on_a_line",
    ),
    Mutant(
        "the simulated user runs on the bot's model",
        "nodes/participants.py",
        "Role.USER: SIMULATED_USER",
        "Role.USER: work.agent",
        f"{DOCUMENT}::test_a_simulated_user_without_a_model_says_which_option_is_missing",
    ),
    Mutant(
        "every persona is the same user",
        "nodes/participants.py",
        "persona=config.persona or",
        "persona=",
        f"{DOCUMENT}::test_simulated_users_differ_by_persona_and_run_on_a_model_of_their_own",
    ),
    Mutant(
        "the seed does not reach the model",
        "src/segue/models/openai/model.py",
        "if request.seed is None else",
        "if request else",
        f"{DOCUMENT}::test_simulated_users_differ_by_persona_and_run_on_a_model_of_their_own",
    ),
    Mutant(
        "the same call is allowed once too often",
        "nodes/participants.py",
        "made < self._most",
        "made <= self._most",
        f"{DOCUMENT}::test_the_same_call_is_refused_after_it_was_made_twice",
    ),
    Mutant(
        "an agent is given the result of another call",
        "src/segue/testing/rehearsal/segue_bot.py",
        "u.call_id == call_id and ",
        "",
        "tests/rehearsal/test_segue_bot.py::"
        "test_the_agent_sees_the_apis_functions_and_their_errors_and_its_model_the_seed",
    ),
    Mutant(
        "a host that is not allowed is called",
        "nodes/participant_apis.py",
        "not {url.host, place} & set(allowed)",
        "not allowed",
        "tests/nodes/conversation/test_apis.py::test_requests_go_to_allowed_hosts_only",
    ),
    Mutant(
        "a dependency counts as met before its call succeeded",
        "src/segue/testing/rehearsal/participants.py",
        "{result.action for result in conversation.results if result.ok}",
        "{result.action for result in conversation.results}",
        "tests/rehearsal/workflows/test_participants.py::test_a_call_is_refused_until_what_it_requires_has_succeeded",
    ),
    Mutant(
        "pass^k is a power of the rate",
        STATISTICS,
        "comb(successes, k) / comb(n, k) for",
        "(successes / n) ** k for",
        f"{NUMBERS}::test_pass_hat_k_is_the_mean_over_scenarios_of_the_chance_that_k_trials_succeed",
    ),
    Mutant(
        "McNemar's test counts the conversations that did not change",
        STATISTICS,
        "changed = better + worse",
        "changed = len(every)",
        f"{NUMBERS}::test_a_difference_of_nine_to_nothing_exceeds_noise_and_one_of_two_to_one_does_not",
    ),
    Mutant(
        "the sign of a difference is turned round",
        STATISTICS,
        "sum(after for _, after in every) - sum(before for before, _ in every)",
        "sum(before for before, _ in every) - sum(after for _, after in every)",
        f"{NUMBERS}::test_a_difference_of_nine_to_nothing_exceeds_noise_and_one_of_two_to_one_does_not",
    ),
    Mutant(
        "precision is recall",
        OUTCOME,
        "self.matched / self.made if self.made",
        "self.matched / self.expected if self.made",
        f"{NUMBERS}::test_a_call_counts_once_and_only_if_it_reached_the_api_with_the_expected_arguments",
    ),
    Mutant(
        "one expected call accounts for every call like it",
        OUTCOME,
        "            open_calls.remove(key)\n",
        "            pass\n",
        f"{NUMBERS}::test_a_call_counts_once_and_only_if_it_reached_the_api_with_the_expected_arguments",
    ),
    Mutant(
        "a call that failed counts as made",
        OUTCOME,
        "not result.controller and (result.status_code or 0) < SERVER_ERROR",
        "not result.controller",
        f"{NUMBERS}::test_a_call_counts_once_and_only_if_it_reached_the_api_with_the_expected_arguments",
    ),
    Mutant(
        "only the last model's cost counts",
        "src/segue/core/models.py",
        "sum(cost or 0.0 for cost, _ in known)",
        "known[-1][0]",
        f"{NUMBERS}::test_tokens_and_cost_are_those_of_every_model_of_the_conversation",
    ),
    Mutant(
        "conversations that nothing grades count as failures",
        "src/segue/testing/rehearsal/report.py",
        "known = [value for value in values if value is not None]",
        "known = [bool(value) for value in values]",
        f"{NUMBERS}::test_a_batch_sums_calls_up_before_it_divides_and_leaves_out_what_nothing_measures",
    ),
    Mutant(
        "a fork leaves the bot's session behind",
        "src/segue/runtime/sessions.py",
        "beside = [(bot, bot_session(session_id))] if bot else []",
        "beside: list[tuple[str, str]] = []",
        "tests/rehearsal/test_interruptions.py::"
        "test_a_fork_has_the_bots_session_of_that_moment_and_repeats_no_call_and_deletion_takes_both",
    ),
)
