"""The plan graph: MAKE_PLAN → DECOMPOSE → SCHEDULE → EXECUTE_STEP | ASK_USER … → ANSWER."""

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.nodes.plan import (
    PlanState,
    StepWork,
    after_decompose,
    after_make_plan,
    after_schedule,
    answer,
    ask_user,
    decompose,
    execute_step,
    give_up,
    init,
    make_plan,
    schedule,
)
from segue.nodes.task import GraphInput, ModeOutput
from segue.registry import AgentGraph


def build_plan() -> AgentGraph[PlanState, GraphInput, ModeOutput]:
    """The graph, to be compiled with a checkpointer or without."""
    graph = AgentGraph(PlanState, RunContext, input_schema=GraphInput, output_schema=ModeOutput)
    graph.add_node("INIT", init)
    graph.add_node("MAKE_PLAN", make_plan)
    graph.add_node("DECOMPOSE", decompose)
    graph.add_node("SCHEDULE", schedule)
    graph.add_node("EXECUTE_STEP", execute_step, input_schema=StepWork)
    graph.add_node("ASK_USER", ask_user, input_schema=StepWork)
    graph.add_node("ANSWER", answer)
    graph.add_node("GIVE_UP", give_up)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "MAKE_PLAN")
    graph.add_conditional_edges("MAKE_PLAN", after_make_plan)
    graph.add_conditional_edges("DECOMPOSE", after_decompose)
    after_scheduling = ["EXECUTE_STEP", "ASK_USER", "SCHEDULE", "MAKE_PLAN", "ANSWER"]
    graph.add_conditional_edges("SCHEDULE", after_schedule, after_scheduling)
    graph.add_edge("EXECUTE_STEP", "SCHEDULE")
    graph.add_edge("ASK_USER", "SCHEDULE")
    graph.add_edge("ANSWER", END)
    graph.add_edge("GIVE_UP", END)
    return graph


graph = build_plan().compile()
