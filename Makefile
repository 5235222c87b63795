# SPDX-License-Identifier: GPL-2.0
# pteopt: the only entry point. No logic here beyond what calls what.

# Set these on the command line or in the environment:
# ARCH=arm64|powerpc (default: both), CPU=<variant>, BASE=6.12, W=<workloads>
# KSRC=<directory, tarball or git tree of a kernel>, O=<output folder>, V=1
export ARCH CPU BASE W KSRC O V NAME

MAKEFLAGS += --no-print-directory
PY := python3
S := scripts

.DEFAULT_GOAL := help
.SUFFIXES:

.PHONY: help
help: ## this text
	@$(PY) $(S)/help.py $(firstword $(MAKEFILE_LIST))

.PHONY: deps
deps: ## install the Debian packages that are missing, or name them
	@$(S)/deps.sh $(if $(ARCH),$(ARCH),arm64 powerpc)

.PHONY: bench
bench: deps ## stock against patched: build both, count, table and report
	@$(PY) $(S)/bench.py

.PHONY: report
report: ## one HTML file of all that was measured (HW=: files of hw-bench)
	@$(S)/deps.sh --report
	@$(PY) $(S)/report.py

.PHONY: tar
tar: deps ## for a real machine: hw-bench, workloads, both kernels (CONFIG=)
	@$(PY) $(S)/pack.py

.PHONY: test
test: deps ## prove that it works; ends with `N passed, N failed, N skipped`
	@$(PY) $(S)/test.py

.PHONY: prove
prove: deps ## each KUnit suite must fail on the kernel without its patch
	@$(PY) $(S)/test.py prove

.PHONY: debug
debug: deps ## suites and workloads on debug kernels (NAME=vm|kasan|16k|...)
	@PART=debug $(PY) $(S)/test.py

.PHONY: mutants
mutants: deps ## wrong edits to the series: each must be seen (MUTANT=, QUICK=1)
	@$(PY) $(S)/mutants.py

.PHONY: stress
stress: deps ## races on the patched kernel, for ROUNDS= rounds
	@$(PY) $(S)/stress.py

.PHONY: selftests
selftests: deps ## the kernel's own mm tests, stock against patched (T=<tests>)
	@$(PY) $(S)/selftests.py

.PHONY: bisect
bisect: deps ## each patch builds, boots, loses no test (FROM=n TO=n); hours
	@$(PY) $(S)/bisection.py

.PHONY: perf
perf: deps ## perf stat and perf bench in guests, stock against patched
	@$(PY) $(S)/perf.py

.PHONY: litmus
litmus: ## what the memory models of Arm and POWER say (T=<tests>)
	@$(PY) $(S)/litmus.py

.PHONY: check
check: ## checkpatch, sparse, shellcheck, codespell, kernel-doc, refresh
	@$(S)/deps.sh --check $(if $(ARCH),$(ARCH),arm64 powerpc)
	@$(S)/check.sh

.PHONY: trees
trees: deps ## unpack the source and apply the series: build/<base>/
	@$(PY) $(S)/series.py trees

.PHONY: kernels
kernels: deps ## build the stock and the patched kernel
	@$(PY) $(S)/kernel.py

.PHONY: module
module: deps ## the pteopt module (TEST=1: and its tests; KDIR=: your kernel)
	@$(PY) $(S)/module.py

.PHONY: boot
boot: deps ## a shell in the patched guest
	@$(PY) $(S)/boot.py

.PHONY: apply
apply: ## the series onto your git tree KSRC=, on a new branch
	@$(PY) $(S)/series.py apply

.PHONY: series
series: ## the series as an mbox and as a quilt folder
	@$(PY) $(S)/series.py export

.PHONY: refresh
refresh: ## from the commits in build/<base>/patched back to patches/<base>
	@$(PY) $(S)/series.py refresh

.PHONY: new
new: ## a commented template: KIND=kunit|workload|patch-base NAME=...
	@KIND="$(KIND)" NAME="$(NAME)" $(PY) $(S)/new.py

.PHONY: clean
clean: ## remove what was built; downloads and the compiler cache stay
	@$(PY) $(S)/clean.py
