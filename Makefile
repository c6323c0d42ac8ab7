# Everything runs in .venv, which is made on first use; Python 3.11 or newer and make are all that is needed.

VENV := .venv
BIN := $(VENV)/bin
TYPES := build/types
TASKS := 2000
RELEASED := 3.11 3.12 3.13
SECONDS := 150
CONSTRAINTS := -c constraints.txt
PARALLEL := --dist loadfile --no-loadscope-reorder
# Processes and browsers depend on the machine: a test that fails is tried once more, and shown. A finding stays a failure.
RETRY := --reruns 1 --rerun-except FINDING --rerun-show-tracebacks -raR
NPM := sh web/npm.sh $(VENV)
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11

# An environment that is active, or another project's settings, must not reach into .venv.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE MYPYPATH SEGUE_AGENTS
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo demo-crash docs pictures test test-slow test-whole test-postgres conformance crash month mutants check e2e open-webui types serve studio bench bench-aims bench-quick bench-serve bench-scale bench-storage bench-workers bench-faults bench-integrity bench-ledger bench-digest bench-agentdojo durability lock release clean

help: ## list these targets
	@awk -F ':.* ## ' '/^[a-z0-9-]+:.* ## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## plan a trip in the terminal, offline and without a key
	$(BIN)/segue demo
	@echo "(segue is $(BIN)/segue here. To use the command by its name: source $(BIN)/activate)"

demo-crash: $(VENV)/.base ## kill an agent during a payment and resume it, offline and without a key
	$(BIN)/segue demo --crash

docs: $(VENV)/.docs ## build the documentation into site/
	$(BIN)/python -m reference
	@echo 'Read it: $(BIN)/python -m http.server 8080 -d site, then http://localhost:8080'

test: $(VENV)/.dev ## run the fast tests
	$(BIN)/python -m pytest -m 'not slow' -n 3 $(PARALLEL) $(RETRY) -p no:schemathesis

test-slow: $(VENV)/.dev web/node_modules/.installed ## run the slow tests: processes, crashes, recordings
	$(BIN)/python -m pytest -m slow -n 4 $(PARALLEL) $(RETRY)

test-whole: $(VENV)/.dev ## run the whole of what test-slow takes a part of: crashes, hostile bodies, forks
	WHOLE=1 $(BIN)/python -m pytest tests/crash/test_crash.py tests/server/test_hostile_bodies.py tests/checkpoints/test_forking.py -n 2 $(PARALLEL) $(RETRY)

test-postgres: $(VENV)/.dev ## run the slow tests that need PostgreSQL, on a server of their own
	$(BIN)/python -m pytest -m postgres -n 2 $(PARALLEL) $(RETRY)

conformance: $(VENV)/.dev web/node_modules/.installed ## the figures of MCP's own suite, and of A2A's and LangGraph's where A2A_TCK and LANGGRAPH_SDK_TESTS name them
	$(BIN)/python -m tests.conformance

crash: $(VENV)/.dev ## kill it, pause it, fill its disk, race it: the tables of docs/reliability.md
	$(BIN)/python -m tests.crash
	$(BIN)/python -m tests.crash.langgraph

month: $(VENV)/.dev ## a simulated month with two kills a day: what its account has otherwise than the world outside
	$(BIN)/python -m tests.operations

mutants: $(VENV)/.dev ## put known faults into a copy of the source: the tests must notice each
	$(BIN)/python -m tests.mutants

check: $(VENV)/.dev types web/node_modules/.installed ## format, lint, types and imports, as CI does
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@echo 'mypy --strict'; out=$$(MYPYPATH=$(TYPES) $(BIN)/mypy --explicit-package-bases -p segue -p reference -p readme 2>&1); rc=$$?; echo "$$out" | \
	  sed -E 's#$(TYPES)/segue/(graphs|nodes|tools|prompts|checkpoints)/#\1/#g; s#$(TYPES)/#src/#g'; exit $$rc
	PYTHONPATH=$(TYPES) $(BIN)/lint-imports
	$(BIN)/python -m gates
	@echo 'tsc --checkJs and eslint'; $(NPM) run --silent check

e2e: $(VENV)/.e2e web/node_modules/.installed ## the service in a browser: fetches Chromium where there is none
	@sh e2e/chromium.sh
	$(BIN)/python -m pytest e2e -n 3 --dist worksteal $(RETRY)

open-webui: $(VENV)/.e2e ## the situations of docs/guides/chat-clients.md in the real Open WebUI, in a virtual environment of its own: 8 GB
	@sh e2e/chromium.sh
	$(MAKE) VENV=.venv-open-webui .venv-open-webui/.open-webui
	$(BIN)/python -m pytest e2e/open_webui.py

pictures: $(VENV)/.e2e ## draw docs/crash.svg and docs/killed.webp anew, from a terminal and a browser
	@sh e2e/chromium.sh
	$(BIN)/python -m reference.pictures
	$(BIN)/python -m e2e.picture

web/node_modules/.installed: web/package-lock.json | $(VENV)/.dev
	@$(NPM) ci --silent && touch $@

# Type checkers do not follow the package map of an editable install, so they read a copy that is installed like any wheel.
types: $(VENV)/.dev
	@rm -rf build/lib build/bdist.* build/wheel $(TYPES) && mkdir -p build
	@$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . >build/log 2>&1 || { cat build/log; exit 1; }
	@$(BIN)/python -m zipfile -e build/wheel/*.whl $(TYPES)
	@$(BIN)/python -m reference.readme $(TYPES)/readme

studio: export SEGUE_AGENTS := $(SEGUE_AGENTS)
serve: $(VENV)/.serve ## start the service with the example agents, and its page at http://127.0.0.1:8000
	$(BIN)/segue serve

studio: $(VENV)/.studio ## open the graphs in LangGraph Studio, on this machine only
	LANGGRAPH_CLI_NO_ANALYTICS=1 LANGSMITH_TRACING=false \
	  $(BIN)/langgraph dev --host 127.0.0.1 --no-browser --no-reload

bench: $(VENV)/.bench ## what a round, a prompt, a task and a start cost, beside peers: writes benchmarks/costs.md
	$(BIN)/python benchmarks/cost.py --short-tasks $(TASKS)

bench-aims: $(VENV)/.bench ## the first table of benchmarks/costs.md alone
	$(BIN)/python benchmarks/cost.py --aims

bench-quick: $(VENV)/.bench ## what costs over 15 % more than when make bench was last committed: SECONDS=150
	$(BIN)/python benchmarks/cost.py --quick $(SECONDS)

bench-serve: $(VENV)/.dev ## a thousand clients of the service, beside the same from bare Starlette
	$(BIN)/python benchmarks/serve.py

bench-scale: $(VENV)/.dev ## what commands take over twice as many sessions, and over a session twice as long
	$(BIN)/python -m benchmarks.scale

bench-storage: $(VENV)/.dev ## what storing a task costs on PostgreSQL, beside SQLite
	$(BIN)/python -m benchmarks.storage

bench-agentdojo: ## what approval costs and stops on AgentDojo, in a virtual environment of its own
	$(MAKE) VENV=.venv-agentdojo .venv-agentdojo/.agentdojo
	.venv-agentdojo/bin/python -m benchmarks.agentdojo

bench-integrity: $(VENV)/.bench ## edits behind Segue's back, which the audit log finds: the table of docs/reliability.md
	$(BIN)/python -m benchmarks.memory_integrity

bench-digest: $(VENV)/.bench ## what a prompt keeps of a long session, by compaction-conformance-kit: the figures of docs/guides/long-sessions.md
	$(BIN)/python -m benchmarks.compaction_kit

bench-ledger: $(VENV)/.dev ## kill create_agent at every write, with the ledger and without: the table of docs/guides/keep-your-graph.md
	$(BIN)/python -m benchmarks.ledger

bench-faults: $(VENV)/.bench ## which of 19 faults of an endpoint a task survives, beside three peers: writes benchmarks/endpoint_faults.md
	$(BIN)/python -m benchmarks.endpoint_faults

durability: ## how agent frameworks behave when something breaks: the table of docs/durability.md, peers in an environment of their own
	$(MAKE) VENV=.venv-durability .venv-durability/.durability
	.venv-durability/bin/python -m benchmarks.durability

bench-workers: $(VENV)/.dev ## kill workers, freeze them, race them, count them: the tables of docs/scaling.md
	$(BIN)/python -m tests.workers

lock: $(VENV)/.dev ## resolve constraints.txt anew
	@PATH="$(CURDIR)/$(BIN):$$PATH"; command -v uv >/dev/null || $(BIN)/python -m pip install -q uv; \
	  uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --group e2e --group bench --group docs --upgrade \
	    --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' -o constraints.txt pyproject.toml

release: $(VENV)/.release ## build and check what is published, and try the wheel on each Python: RELEASED='3.11 3.12 3.13'
	@.ci/release $(BIN) $(RELEASED)

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist site web/node_modules *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up. A stamp says what is installed; it is made anew when pyproject.toml or constraints.txt changes.
$(VENV)/.base: WANTED := -e .
$(VENV)/.serve: WANTED := -e '.[serve]'
$(VENV)/.studio: WANTED := -e '.[studio]'
$(VENV)/.dev: WANTED := -e '.[all]' --group dev
$(VENV)/.release: WANTED := -e '.[all]' --group dev --group release
$(VENV)/.e2e: WANTED := -e '.[all]' --group dev --group e2e
$(VENV)/.bench: WANTED := -e '.[all]' --group dev --group bench
$(VENV)/.agentdojo: WANTED := -e . --group agentdojo
$(VENV)/.agentdojo: CONSTRAINTS :=
$(VENV)/.open-webui: WANTED := --group open-webui
$(VENV)/.open-webui: CONSTRAINTS :=
$(VENV)/.durability: WANTED := -e '.[langchain,serve]' --group durability
$(VENV)/.durability: CONSTRAINTS := -c benchmarks/durability/constraints.txt
$(VENV)/.docs: WANTED := -e '.[serve]' --group docs

$(VENV)/.base $(VENV)/.serve $(VENV)/.studio $(VENV)/.dev $(VENV)/.e2e $(VENV)/.release $(VENV)/.bench $(VENV)/.agentdojo $(VENV)/.open-webui $(VENV)/.durability $(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV): $(WANTED)"
	@PATH="$$PATH:$(CURDIR)/$(BIN)"; \
	uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv || true; \
	uv pip install --quiet --compile-bytecode --python $(BIN)/python $(CONSTRAINTS) $(WANTED) 2>$(VENV)/uv.log || { \
	  echo 'uv failed, see $(VENV)/uv.log; trying pip.'; \
	  export PYTHONWARNINGS=ignore; \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip; \
	  $(BIN)/python -m pip install --quiet --upgrade pip && \
	  $(BIN)/python -m pip install --quiet $(CONSTRAINTS) $(WANTED); }
	@touch $@ $(VENV)/.base

$(BIN)/python:
	@for python in $(PYTHONS); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  echo "Creating $(VENV) with $$python"; \
	  "$$python" -m venv $(VENV) 2>/dev/null && exit 0; \
	  rm -rf $(VENV); uv venv --quiet --python "$$python" $(VENV) 2>/dev/null && exit 0; \
	  rm -rf $(VENV); lacking="$$python"; \
	done; \
	if [ -n "$$lacking" ]; then \
	  echo "$$lacking cannot make virtual environments: install its venv module (Debian and Ubuntu: apt install python3-venv)." >&2; \
	else \
	  echo 'Segue needs Python 3.11 or newer, and none is on the PATH: install one, or name it: make PYTHON=/path/to/python3.' >&2; \
	fi; exit 1
