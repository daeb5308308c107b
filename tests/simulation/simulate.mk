# The simulator: the whole daemon in one process, each run repeatable from its number. Included by the Makefile (after VENV, BIN).
# SEED=N replays one run, KEEP and SCHEDULE a part of it, as a failure names them; COUNT=N makes so many, from FIRST on; without either
# it goes on until it is stopped. SEED=N AGAIN=TIMES runs it so often and tells the first step at which two differ; STEPS=FILE keeps
# its steps. BACKUP=1: with a backup, of which cuts are restored and judged at the end.
.PHONY: simulate simulate-report

simulate: $(VENV)/.dev    ## the daemon under schedules, crashes, bad disks and lost connections, from numbers (SEED=7, or until stopped)
	@cd tests && ../$(BIN)/python -m simulation.run $(if $(BACKUP),--backup) $(if $(SEED),--seed $(SEED) $(if $(KEEP),--keep $(KEEP)) $(if $(SCHEDULE),--schedule $(SCHEDULE)) $(if $(AGAIN),--again $(AGAIN)) $(if $(STEPS),--steps $(abspath $(STEPS))),--first $(or $(FIRST),1) $(if $(COUNT),--count $(COUNT)))

simulate-report: $(VENV)/.dev  ## writes docs/reports/simulation.md: what met what in COUNT runs (20000); with SECONDS=200 it goes on behind those before
	@cd tests && ../$(BIN)/python -m simulation.run --count $(or $(COUNT),20000) $(if $(SECONDS),--seconds $(SECONDS)) --state ../docs/reports/simulation.json --report ../docs/reports/simulation.md

# Planted defects: names' beginnings in DEFECTS, real seconds in SECONDS; goes on where the last hunt was stopped.
.PHONY: simulate-planted

simulate-planted: $(VENV)/.dev    ## looks for defects of order that are put into the daemon on purpose; writes docs/reports/planted.md
	@cd tests && ../$(BIN)/python -m simulation.hunt $(DEFECTS) $(if $(SECONDS),--seconds $(SECONDS))
