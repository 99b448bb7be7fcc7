# Every target sets up `.venv` by itself. Another interpreter: make PYTHON=python3.12 test
# Plain POSIX make, so that GNU make 3.81 and BSD make run it as well.

PYTHON = python3
BIN = .venv/bin
# No compiler is needed: everything but this project comes as a wheel.
PIP_INSTALL = $(BIN)/python -m pip install -qq --disable-pip-version-check --root-user-action=ignore --only-binary :all:
BACKEND_FREE = env -u DURABLE_TEST_BACKEND DJANGO_SETTINGS_MODULE=tests.settings
EXAMPLE_SETTINGS = config.settings
# Of `make chaos`: for how many seconds, and from which number its faults are drawn (none: it draws one, and says it).
DURATION = 60
# Of `make soak`: for how many minutes.
MINUTES = 60
SEED =

.PHONY: help demo serve test test-browser test-browser-newest test-faults test-system test-upgrade chaos soak mutants check oracle tox bench bench-all bench-quick bench-fanout bench-loops bench-admin screens messages clean

help:
	@echo "make demo         the shop: orders, a worker killed in mid-step, and the count of what was lost (nothing)"
	@echo "make serve        site, admin, gateway, warehouse and a worker, for a look"
	@echo "make test         the whole suite on real PostgreSQL and Redis, and on SQLite"
	@echo "make test-browser the admin in a real browser (Chromium), in three minutes"
	@echo "make test-browser-newest  a part of these on the newest Django, with a Python that it runs on"
	@echo "make test-faults  every point of fifteen def scenarios fails, in up to five ways"
	@echo "make test-system  PgBouncer, full disks, little memory, wrong clocks, models (Debian, root)"
	@echo "make test-upgrade workers of the released version beside those of this one, under chaos: DURATION=60 SEED=1"
	@echo "make chaos        workers, PostgreSQL, Redis and the wires between them are hit: make chaos DURATION=60 SEED=1"
	@echo "make soak         workers at 70 % of what they can do, and whether anything grows: make soak MINUTES=60"
	@echo "make mutants      which faults of the engine no test would notice (at most one in 25)"
	@echo "make check        ruff, mypy, import-linter, missing migrations, Django's checks"
	@echo "make oracle       schedules around every change of the clocks, against a walk over each minute"
	@echo "make tox          the suite on every Python and Django that can be had here"
	@echo "make bench        durable engines side by side; renews docs/performance.md"
	@echo "make bench-all    besides: full tables, sleepers, a slow disk, growth; goes on where it was stopped"
	@echo "make bench-quick  the measured floors"
	@echo "make bench-fanout what a child of ten thousand costs beside one of a thousand"
	@echo "make bench-loops  what the ten thousandth turn of a loop costs beside the hundredth"
	@echo "make bench-admin  how fast the admin's pages come beside a million runs"
	@echo "make screens      takes the pictures of docs/tour.md anew, with the browser of test-browser"
	@echo "make messages     takes up new texts into the translations, and compiles them (needs GNU gettext)"
	@echo "make clean        removes .venv and everything that was built"

demo: .venv/.ready-run
	@$(BIN)/python example_project/manage.py demo

serve: .venv/.ready-run
	@$(BIN)/python example_project/manage.py serve

test: .venv/.ready-test
	@$(BIN)/python tests/run.py $(ARGS)

test-browser: .venv/.ready-browser
	@$(BIN)/python -m tests.browser $(ARGS)

test-browser-newest: .venv/.ready-dev
	@$(BIN)/python tests/tox_cells.py --browser $(ARGS)

test-faults: .venv/.ready-test
	@$(BIN)/python -m tests.faults $(ARGS)

test-system: .venv/.ready-test
	@$(BIN)/python -m tests.system $(ARGS)

test-upgrade: .venv/.ready-test
	@seed="$(SEED)"; $(BIN)/python -m tests.chaos --duration $(DURATION) --workers 4 --old 2 $${seed:+--seed "$$seed"} $(ARGS)

chaos: .venv/.ready-test
	@seed="$(SEED)"; $(BIN)/python -m tests.chaos --duration $(DURATION) $${seed:+--seed "$$seed"} $(ARGS)

soak: .venv/.ready-test
	@seed="$(SEED)"; $(BIN)/python -m tests.soak --minutes $(MINUTES) $${seed:+--seed "$$seed"} $(ARGS)

mutants: .venv/.ready-test
	@$(BIN)/python -m tests.mutants $(ARGS)

oracle: .venv/.ready-test
	@$(BIN)/python -m tests.schedules.compare $(ARGS)

bench: .venv/.ready-bench
	@$(BIN)/python -m benchmarks.suite --minutes 24 $(ARGS)

bench-all: .venv/.ready-bench
	@$(BIN)/python -m benchmarks.suite --rest --resume $(ARGS)

bench-quick: .venv/.ready-test
	@$(BIN)/python benchmarks/quick.py $(ARGS)

bench-fanout: .venv/.ready-test
	@$(BIN)/python benchmarks/fanout.py $(ARGS)

bench-loops: .venv/.ready-test
	@$(BIN)/python -m benchmarks.loops $(ARGS)

bench-admin: .venv/.ready-test
	@$(BIN)/python -m benchmarks.admin $(ARGS)

screens: .venv/.ready-screens
	@$(BIN)/python benchmarks/screens.py $(ARGS)

check: .venv/.ready-dev
	@echo "== ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "== mypy"
	@$(BACKEND_FREE) $(BIN)/mypy --no-error-summary django_durable tests/workflows/typing_contract.py
	@test ! -f example_project/manage.py || \
		env DJANGO_SETTINGS_MODULE=$(EXAMPLE_SETTINGS) PYTHONPATH=example_project \
		$(BIN)/mypy --no-error-summary --cache-dir=.mypy_cache/example example_project
	@echo "== layers"
	@$(BIN)/lint-imports > .venv/layers.log || { cat .venv/layers.log; exit 1; }
	@echo "== migrations and Django's checks"
	@$(BACKEND_FREE) $(BIN)/python -W error tests/manage.py makemigrations --check --dry-run --verbosity 0
	@$(BACKEND_FREE) $(BIN)/python -W error tests/manage.py check --verbosity 0 --fail-level WARNING
	@echo "make check: all well"

messages: .venv/.ready-test
	@cd django_durable && $(BACKEND_FREE) PYTHONPATH=.. ../$(BIN)/python -m django makemessages -v 0 -l de -l en -l es -l fr --no-obsolete --add-location file
	@# English is what the source says, also where a new text was taken for an old one that has changed.
	@cd django_durable/locale/en/LC_MESSAGES && msgattrib --clear-fuzzy --clear-previous --empty -o django.po django.po && msgen -o django.po django.po
	@cd django_durable && $(BACKEND_FREE) PYTHONPATH=.. ../$(BIN)/python -m django compilemessages -v 0

tox: .venv/.ready-dev
	@$(BIN)/python tests/tox_cells.py $(ARGS)

clean:
	@rm -rf .venv .tox build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean"

.venv/.ready-run: .venv/.made
	@echo "== installing what the project needs to run"
	@$(PIP_INSTALL) -e .
	@touch $@

.venv/.ready-test: .venv/.made
	@echo "== installing what the tests need (PostgreSQL and Redis come as wheels)"
	@$(PIP_INSTALL) -e ".[test]"
	@touch $@

.venv/.ready-bench: .venv/.ready-test
	@echo "== installing what the benchmarks need"
	@$(PIP_INSTALL) -e ".[bench]"
	@touch $@

.venv/.ready-browser: .venv/.ready-test
	@echo "== installing what drives the browser, and the themes that are looked at"
	@$(PIP_INSTALL) -e ".[browser]"
	@touch $@

.venv/.ready-screens: .venv/.ready-browser
	@echo "== installing what makes the pictures small"
	@$(PIP_INSTALL) -e ".[screens]"
	@touch $@

.venv/.ready-dev: .venv/.made
	@echo "== installing what the checks need"
	@$(PIP_INSTALL) -e ".[dev]"
	@touch $@

.venv/.made: pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "There is no $(PYTHON) here. Python 3.11 or newer is needed: make PYTHON=/path/to/python3 ..."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, and $(PYTHON) is older. If another is there: make PYTHON=python3.12 ..."; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) comes without venv. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "== making .venv with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv .venv
	@touch $@
