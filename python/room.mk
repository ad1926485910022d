# SPDX-License-Identifier: MIT
# The Python package: its library and worker program (C of grid/python), put
# together below $(B)/python, where tests import it, and the wheel of the same.

PYTHON := /usr/bin/python3
py := $(B)/python/skep
py_t := $(B)/test/python

# grid/lib with functions that ctypes can call; nothing else is exported.
$(py)/libskeppython.so: $(call grid_lib_objects,gcc-pic) \
		$(addprefix $(B)/obj/gcc-pic/grid/python/,master.o data.o) \
		grid/python/exports.map
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -s -Wl,-z,defs -Wl,--build-id=none \
		-Wl,-soname,libskeppython.so \
		-Wl,--version-script=grid/python/exports.map -o $@ \
		$(filter %.o,$^)

# What the node's Python loads is inside the worker program, with boot.py.
$(py_t)/worker.so: $(addprefix $(B)/obj/gcc-pic/,grid/python/worker.o \
		grid/worker/order.o grid/worker/stream.o grid/core/session.o) grid/python/exports.map
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -s -Wl,-z,defs -Wl,--build-id=none \
		-Wl,-soname,skep-worker.so \
		-Wl,--version-script=grid/python/exports.map -o $@ \
		$(filter %.o,$^)
$(py_t)/payload.S: python/skep/boot.py $(py_t)/worker.so python/room.mk
	$(Q)mkdir -p $(@D)
	$(Q)printf '.section .rodata\n.globl %s_start, %s_end\n%s_start: .incbin "%s"\n%s_end: .byte 0\n' \
		boot boot boot python/skep/boot.py boot \
		library library library $(py_t)/worker.so library >$@
	$(Q)printf '.section .note.GNU-stack,"",@progbits\n' >>$@
$(py_t)/payload.o: $(py_t)/payload.S
	$(call say,AS)
	$(Q)$(CC) -c -o $@ $<
$(py_t)/python_stub.c: grid/python/python.idl $(B)/bin/skep
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen -o $(@D) $<
$(py)/python.rex: $(B)/obj/gcc/grid/python/start.o $(py_t)/python_stub.c \
		$(py_t)/payload.o $(B)/lib/libskepworker.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -s -pthread -Wl,--build-id=none -Igrid/include -o $@ \
		$(filter-out %.a,$^) -L$(B)/lib -lskepworker

py_files := $(patsubst python/%,$(B)/python/%,$(sort $(wildcard \
	python/skep/*.py)) python/skep/py.typed)
$(py_files): $(B)/python/%: python/%
	$(Q)mkdir -p $(@D)
	$(Q)cp $< $@
py_package := $(py_files) $(py)/libskeppython.so $(py)/python.rex
PROGRAMS += $(py_package) $(B)/python/METADATA

# What pip knows about an installed package.
$(B)/python/METADATA: $(B)/python/skep/__init__.py python/wheel.py
	$(Q)$(PYTHON) -B python/wheel.py --metadata $(py) >$@.part
	$(Q)mv $@.part $@

# Tests run under the system's Python, which workers may run as well.
py_tests := $(wildcard python/test/*.py)
py_run = PYTHONPATH=$(abspath $(B)/python) SKEP_PROGRAM=$(abspath $(B)/bin/skep)
py_needs = $(py_package) $(py_tests) $(B)/bin/skep
$(py_t)/modules/shapes.rex: python/test/shapes.idl $(B)/bin/skep \
		$(B)/lib/libskepworker.a
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen --build $< -o $@ -- -lm

CHECK_SUITES += python-frames python-modules
suite_python-frames = $(py_run) $(PYTHON) -B python/test/frames.py
suite_python-frames_needs = $(py_needs)
suite_python-modules = $(py_run) $(B)/bin/skep run --slots 2 \
	--modules $(py_t)/modules -- $(PYTHON) python/test/modules.py
suite_python-modules_needs = $(py_needs) $(py_t)/modules/shapes.rex

# Whoever reads the program's folder could import its modules: workers do not.
CHECK_SUITES += python-executor
suite_python-executor = $(py_run) $(B)/bin/skep run --slots 2 -- $(PYTHON) -B \
	python/test/executor.py
suite_python-executor_needs = $(py_needs)
TEST_SUITES += python-break
suite_python-break = $(py_run) $(PYTHON) -B python/test/break.py
suite_python-break_needs = $(py_needs) $(B)/bin/bee
suite_python-break_deadline = 600

# The name has the version; it is set in one place.
py_version := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' python/skep/__init__.py)
WHEEL := $(B)/wheel/skep-$(py_version)-py3-none-linux_x86_64.whl
.PHONY: wheel
wheel: $(WHEEL) ## build the Python package: pip install build/wheel/*.whl
$(WHEEL): $(py_package) python/wheel.py
	$(call say,WHEEL)
	$(Q)$(PYTHON) -B python/wheel.py $(py) $(@D) >/dev/null

TEST_SUITES += python-wheel
suite_python-wheel = $(py_run) $(PYTHON) -B python/test/wheel.py \
	$(abspath $(WHEEL)) $(abspath python/wheel.py) $(abspath $(py))
suite_python-wheel_needs = $(py_needs) $(WHEEL)

# The peers come from PyPI and serve the bench only. They and the package must
# be one Python's, so workers may read its folder.
py_peers := $(B)/bench/python
$(py_peers)/ready: python/room.mk
	$(call say,PIP)
	$(Q)$(PYTHON) -m venv $(py_peers)
	$(Q)$(py_peers)/bin/pip install -q ray 'dask[distributed]' numpy cloudpickle
	$(Q)touch $@
BENCHES += python
bench_python = $(py_run) $(B)/bin/skep run --allow $(abspath $(py_peers)) -- \
	$(py_peers)/bin/python -B python/bench/peers.py
bench_python_needs = $(py_package) python/bench/peers.py $(py_peers)/ready \
	$(B)/bin/skep
