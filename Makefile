# SPDX-License-Identifier: MIT
# The only front door. Everything that is made lands under build/; V=1 shows the commands.

help:            ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules --no-print-directory
ifeq ($(V),1)
Q :=
msg = @:
else
Q := @
msg = @printf '  %-6s %s\n' "$(1)" "$(patsubst $(CURDIR)/%,%,$(2))"
endif

VERSION := $(shell sed -n 's/^#define SS_VERSION "\(.*\)"/\1/p' kmod/slotscope.h)
B := build
CC := gcc
CXX := g++
CLANG := clang
BPFTOOL := $(firstword $(wildcard /usr/sbin/bpftool /sbin/bpftool) bpftool)
LLVM_STRIP := $(firstword $(foreach name,llvm-strip llvm-strip-14,$(shell command -v $(name) 2>/dev/null)) llvm-strip)
# Functions and lines, for a backtrace; variables too would be a quarter of the time that it takes to build.
CXXFLAGS ?= -O3 -g1
CXXFLAGS_ALL := -std=c++20 -Wall -Wextra -Wshadow -Werror -Icollector -Iinclude -I. -I$(B)/bpf $(CXXFLAGS)
LIBS := -lbpf -lcap-ng -lfmt -lxxhash -lboost_program_options -lprometheus-cpp-pull -lprometheus-cpp-core -lcurl -llz4 -lzstd -lz -lncursesw -ltinfo -ldate-tz -pthread
# Where vmlinux.h is, which is not ours: clang 14 warns of that of 7.3.
BPFTYPES := $(B)/bpf
BPFFLAGS := -g -O2 -mcpu=v3 -target bpf -D__TARGET_ARCH_x86 -Wall -Werror -Iinclude -Ibpf -isystem $(BPFTYPES)
PREFIX ?= /usr/local

# With the generator of machines that do not exist, which tests, benchmarks and `slotscope gen` share.
COLLECTOR_SRC := $(filter-out collector/cli/main.cc,$(wildcard collector/*/*.cc collector/*/*/*.cc tests/gen/*.cc))
# Folders that compile as one source each, in a third of the time (UNITY=: file by file). So what they have in unnamed
# namespaces needs different names.
UNITY := cli cuda detect/host detect/inputs detect/live detect/patterns explain query remediate report run ship top
unity_src = $(filter-out collector/cli/main.cc,$(wildcard collector/$1/*.cc))
COLLECTOR_OBJ := $(patsubst %.cc,$(B)/obj/%.o,$(filter-out $(foreach folder,$(UNITY),$(call unity_src,$(folder))),$(COLLECTOR_SRC))) \
	$(UNITY:%=$(B)/obj/unity/%.o) $(B)/obj/report/page_html.o $(B)/obj/ship/schema_sql.o
KMOD_SRC := $(wildcard kmod/*.c kmod/*.h) kmod/Kbuild
HEADERS := $(wildcard include/slotscope/*.h)
SKELETONS := $(B)/bpf/relay.skel.h $(B)/bpf/native.skel.h $(B)/bpf/cuda.skel.h
UNIT_SRC := $(wildcard tests/unit/*.cc tests/incidents/*.cc)
# Pure C of the module, that unit tests run on the host.
PORTABLE_SRC := kmod/rdt_cpuid.c kmod/rdt_domain.c kmod/rdt_cpu.c kmod/share.c
LIVE_SRC := $(wildcard tests/live/*.cc)
FLEET_SRC := $(wildcard tests/fleet/*.cc)
TEST_OBJ := $(UNIT_SRC:%.cc=$(B)/obj/%.o) $(LIVE_SRC:%.cc=$(B)/obj/%.o) $(FLEET_SRC:%.cc=$(B)/obj/%.o)
BENCHMARKS := $(B)/bench_pipeline_bench $(B)/bench_detect_bench
F := $(B)/fuzz
FUZZ_OPT := -O1
FUZZERS := $(patsubst tests/fuzz/%.cc,$(F)/%,$(wildcard tests/fuzz/*_fuzz.cc))
# The same targets on their corpora alone, without libFuzzer and sanitizers: nothing has to be compiled once more.
FUZZ_REPLAYS := $(FUZZERS:$(F)/%=$(B)/fuzz-replay/%)

## ---- build

all: bpf collector ## the collector and its BPF programs

bpf: $(SKELETONS) ## the BPF programs

collector: $(B)/slotscope ## the collector

# KDIR=... builds for another kernel than the running one.
KDIR ?= /lib/modules/$(shell uname -r)/build
kmod: ## the kernel module, for KDIR (default: the running kernel)
	$(Q)scripts/build-kmod.sh "$(KDIR)" $(B)/kmod/local
	$(call msg,KMOD,$(B)/kmod/local/slotscope.ko)

# A module per Debian kernel, from headers in the cache (see scripts/kernels.sh).
$(B)/kmod/%/slotscope.ko: $(KMOD_SRC) $(HEADERS) scripts/build-kmod.sh scripts/kernels.sh
	$(call msg,KMOD,$@)
	$(Q)kdir=$$(scripts/kernels.sh kdir $*) && root=$$(scripts/kernels.sh root $*) && scripts/build-kmod.sh "$$kdir" $(B)/kmod/$* "$$root"

$(B)/bpf/vmlinux.h:
	$(call msg,BTF,$@)
	@mkdir -p $(@D)
	@test -r /sys/kernel/btf/vmlinux || { echo "make: /sys/kernel/btf/vmlinux is missing: building the BPF programs needs a kernel with BTF, as those of Debian have" >&2; exit 1; }
	$(Q)$(BPFTOOL) btf dump file /sys/kernel/btf/vmlinux format c > $@

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h) $(HEADERS) $(B)/bpf/vmlinux.h
	$(call msg,BPF,$@)
	$(Q)$(CLANG) $(BPFFLAGS) -c $< -o $@
	$(Q)$(LLVM_STRIP) -g $@

$(B)/bpf/%.bpf.o: tests/live/%.bpf.c $(wildcard bpf/*.h) $(HEADERS) $(B)/bpf/vmlinux.h
	$(call msg,BPF,$@)
	$(Q)$(CLANG) $(BPFFLAGS) -c $< -o $@
	$(Q)$(LLVM_STRIP) -g $@

# With the types of another kernel: BPFTYPES is the folder of its vmlinux.h. See tests/vm/types.sh.
bpf-syntax:
	$(Q)for program in bpf/*.bpf.c tests/live/*.bpf.c; do $(CLANG) $(BPFFLAGS) -fsyntax-only $$program || exit 1; done

$(B)/bpf/%.skel.h: $(B)/bpf/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $* > $@

$(LIVE_SRC:%.cc=$(B)/obj/%.o): | $(B)/bpf/inject.skel.h $(B)/bpf/relay.skel.h $(B)/bpf/sched.skel.h $(B)/bpf/steal.skel.h $(B)/bpf/wide.skel.h

# What is not done for each message, row or record compiles in two thirds of the time.
COLD := cli/% query/% top/% cuda/% detect/live/% detect/patterns/% fleet/% metrics/% nvml/% recording/folder recording/manifest remediate/% run/% base/json_line base/rfc3339 raw/facts \
	ring/kmod_source ring/module_info ring/native_source sinks/straggle_sink
$(filter $(COLD:%=$(B)/obj/collector/%.o) $(COLD:%/%=$(B)/obj/unity/%.o),$(COLLECTOR_OBJ)): private CXXFLAGS_ALL += -O1

# Compiled in half the time; how fast they are matters for those alone that try thousands of cases, or run in guests.
TEST_OPTIMIZATION = $(if $(findstring /gen/,$@),,$(if $(findstring oracle_test,$@)$(findstring /live/,$@)$(findstring /incidents/,$@),-O1,-O0))
$(B)/obj/tests/%.o: private CXXFLAGS_ALL += $(TEST_OPTIMIZATION)

# What most sources include is compiled once (PCH=: not at all), with the flags of those that it is for.
# GCC 12 then warns of a text that is push_back()ed to strings, without reason: emplace_back() it.
PCH := 1
precompiled = $(if $(findstring oracle_test,$@)$(findstring tests/live/,$@)$(findstring tests/incidents/,$@),,$(and $(PCH),$(filter $@,$(COLLECTOR_OBJ)),$(B)/pch/collector.h)\
	$(and $(PCH),$(filter $@,$(TEST_OBJ)),$(B)/pch/tests.h))
ifneq ($(PCH),)
$(COLLECTOR_OBJ): | $(B)/pch/collector.h.gch
$(TEST_OBJ): | $(B)/pch/tests.h.gch
endif
$(B)/pch/collector.h.gch: collector/base/precompiled.h
$(B)/pch/tests.h.gch: tests/precompiled.h collector/base/precompiled.h
$(B)/pch/tests.h.gch: CXXFLAGS_ALL += -O0
$(B)/pch/%.h.gch:
	$(call msg,PCH,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -x c++-header $< -o $@

# The report's page, as the linker puts a file into a program.
PAGE := $(B)/report/page.html
$(PAGE): scripts/bundle_page.sh $(wildcard collector/report/page/*)
	$(call msg,BUNDLE,$@)
	$(Q)scripts/bundle_page.sh collector/report/page $@
$(B)/obj/report/page_html.o: $(PAGE)
	$(call msg,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)cd $(B)/report && ld -r -b binary -z noexecstack page.html -o $(abspath $@)

# And the tables of a fleet's database: each file behind a line with its name.
SCHEMA := $(B)/ship/schema.sql
$(SCHEMA): $(wildcard deploy/clickhouse/*.sql)
	@mkdir -p $(@D)
	$(Q)for file in $^; do echo "-- file: $${file##*/}"; cat $$file; done > $@
$(B)/obj/ship/schema_sql.o: $(SCHEMA)
	$(call msg,EMBED,$@)
	@mkdir -p $(@D)
	$(Q)cd $(B)/ship && ld -r -b binary -z noexecstack schema.sql -o $(abspath $@)

define compile
	$(call msg,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(addprefix -Winvalid-pch -include ,$(precompiled)) -MMD -MP -c $< -o $@
endef
$(B)/obj/%.o: %.cc | $(SKELETONS)
	$(compile)

$(B)/obj/unity/%.o: $(B)/unity/%.cc | $(SKELETONS)
	$(compile)

# Written again only if a file came or went.
define make_unity
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(call $1,$*) | cmp -s - $@ || printf '#include "%s"\n' $(call $1,$*) > $@
endef
$(B)/unity/%.cc: FORCE
	$(call make_unity,unity_src)
$(F)/unity/%.cc: FORCE
	$(call make_unity,fuzz_unity_src)

$(B)/obj/kmod/%.o: kmod/%.c
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -Wshadow -Werror -Iinclude $(CXXFLAGS) -MMD -MP -c $< -o $@

$(B)/libslotscope.a: $(COLLECTOR_OBJ)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar crs $@ $^

$(B)/slotscope: $(B)/obj/collector/cli/main.o $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS)

# CUDA's libraries, played. Functions begin as NVIDIA's do: a probe on another first instruction costs three times as much.
STANDIN := $(B)/standin/libcuda.so.1 $(B)/standin/libcudart.so.13 $(B)/standin/libnvidia-ml.so.1 $(B)/standin/librefused_uretprobe.so \
	$(B)/standin/hostile/libcudart.so.13 $(B)/standin/prologues/libcudart.so.13
STANDIN_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -O1 -g -fPIC -fcf-protection=none -fno-omit-frame-pointer -fno-semantic-interposition
$(B)/standin/libcuda.so.1: tests/cuda/standin_driver.c
$(B)/standin/libcudart.so.13: tests/cuda/standin_runtime.c
$(B)/standin/libnvidia-ml.so.1: tests/cuda/standin_nvml.c
$(B)/standin/librefused_uretprobe.so: tests/cuda/refused_uretprobe.c
$(B)/standin/hostile/libcudart.so.13: tests/cuda/hostile_runtime.c
$(B)/standin/prologues/libcudart.so.13: tests/cuda/prologues.c
$(STANDIN): tests/cuda/standin.h
	$(call msg,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(STANDIN_CFLAGS) -shared -Wl,-soname,$(@F) $(filter %.c,$^) -o $@ -ldl -pthread

$(B)/demo/trainer: scripts/demo/trainer.c
	$(call msg,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -Werror -O2 $< -o $@ -ldl

$(B)/unit_tests: | $(STANDIN)
$(B)/live_tests: | $(STANDIN) $(B)/demo/trainer

$(B)/unit_tests: $(UNIT_SRC:%.cc=$(B)/obj/%.o) $(PORTABLE_SRC:%.c=$(B)/obj/%.o) $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS) -lgmock -lgtest_main -lgtest -ldl

$(B)/live_tests: $(LIVE_SRC:%.cc=$(B)/obj/%.o) $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS) -lgtest -ldl

$(B)/fleet_tests: $(FLEET_SRC:%.cc=$(B)/obj/%.o) $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS) -lgtest_main -lgtest

$(B)/obj/bench/wide.o: | $(B)/bpf/wide.skel.h
$(B)/bench-wide: $(B)/obj/bench/wide.o $(B)/obj/tests/live/wide_machine.o $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS)

$(B)/pingpong $(B)/instructions $(B)/cudacalls: $(B)/%: $(B)/obj/bench/%.o
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS)

$(B)/bench_%: $(B)/obj/bench/%.o $(B)/libslotscope.a
	$(call msg,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS) -lbenchmark_main -lbenchmark

$(FUZZ_REPLAYS): $(B)/fuzz-replay/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/replay.o $(B)/libslotscope.a
	$(call msg,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@ $(LIBS)

# With another compiler: libFuzzer is clang's. All of the collector but what loads BPF programs, runs threads or only writes.
FUZZ_CXXFLAGS := -std=c++20 $(FUZZ_OPT) -g1 -Icollector -Iinclude -I. -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
FUZZ_NOT := cli/% run/% report/% cuda/% metrics/% nvml/% base/proc detect/inputs/demo detect/host/% detect/live/% \
	fleet/health fleet/memory_headroom fleet/node% fleet/observer \
	raw/raw_writer remediate/client remediate/server remediate/socket_file ring/%_source ring/bpf_object ring/perf_ring ring/reader \
	ship/schema ship/ship_metrics ship/shipper sinks/top_table sinks/writer slots/fold
FUZZ_SRC := $(filter-out $(FUZZ_NOT:%=collector/%.cc),$(COLLECTOR_SRC)) \
	collector/run/engine.cc collector/run/gpu_tables.cc $(addprefix collector/detect/host/,host_history.cc rank_note.cc slots_csv.cc) \
	collector/cli/options.cc collector/cli/option_text.cc $(wildcard collector/cli/*_parser.cc) \
	$(addprefix collector/cuda/,calls.cc elf_file.cc library.cc)
fuzz_unity_src = $(filter $(patsubst %,collector/$1/%,$(notdir $(wildcard collector/$1/*.cc))),$(FUZZ_SRC))
FUZZ_UNITY := $(foreach folder,$(UNITY),$(if $(call fuzz_unity_src,$(folder)),$(folder)))
FUZZ_OBJ := $(patsubst %.cc,$(F)/obj/%.o,$(filter-out $(foreach folder,$(FUZZ_UNITY),$(call fuzz_unity_src,$(folder))),$(FUZZ_SRC))) \
	$(FUZZ_UNITY:%=$(F)/obj/unity/%.o)

# clang has another name for a function of fmt than libfmt, which gcc compiled, so one object brings its own.
$(F)/obj/collector/sinks/side_sink.o: private FUZZ_CXXFLAGS += -include fmt/format.h

define fuzz_compile
	$(call msg,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG)++ $(FUZZ_CXXFLAGS) -MMD -MP -c $< -o $@
endef
$(F)/obj/%.o: %.cc
	$(fuzz_compile)
$(F)/obj/unity/%.o: $(F)/unity/%.cc
	$(fuzz_compile)

$(F)/%: $(F)/obj/tests/fuzz/%.o $(FUZZ_OBJ)
	$(call msg,LINK,$@)
	$(Q)$(CLANG)++ $(FUZZ_CXXFLAGS) -fsanitize=fuzzer $^ -o $@ $(LIBS)

-include $(shell find $(B)/obj $(F) -name '*.d' 2>/dev/null)

## ---- run

deps-%:
	$(Q)scripts/deps.sh $*

run: deps-run ## record this machine for 10 s, with the best source that works here, to slots.csv
	$(Q)$(MAKE) -j$(shell nproc) all
	$(Q)scripts/as-root.sh $(B)/slotscope record --duration $(or $(DURATION),10) --output slots.csv

demo: deps-run ## a training loop, somebody in its way, and what slotscope says of it; to ./slotscope-demo; root
	$(Q)$(MAKE) -j$(shell nproc) $(B)/slotscope $(B)/demo/trainer $(STANDIN)
	$(Q)scripts/as-root.sh scripts/demo/demo.sh $(B)

portable: deps-run ## build/portable: the collector with all that it links, for a machine that has none of it
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)scripts/portable.sh $(B)/slotscope $(B)/portable
	$(call msg,COPY,$(B)/portable)

gpu-check: portable ## records CUDA programs on this machine's GPU, and compares with CUDA and NVML; needs nvcc, root
	$(Q)scripts/gpu_check.sh

vm-run: deps-test ## the same with the module, in a guest; KERNEL=6.1 (default), 6.12-rt, 7.3, newest, ...
	$(Q)$(MAKE) $(B)/slotscope $(B)/kmod/$(or $(KERNEL),6.1)/slotscope.ko
	$(Q)tests/vm/run.sh $(or $(KERNEL),6.1) $(or $(DURATION),10)

## ---- check

test: deps-package ## what CI runs, as far as this machine can; what it cannot is SKIPped, with the reason
	$(Q)$(MAKE) -j$(shell nproc) all $(B)/unit_tests $(B)/live_tests $(B)/fleet_tests $(BENCHMARKS) $(FUZZ_REPLAYS)
	$(Q)scripts/portable.sh $(B)/slotscope $(B)/portable
	$(Q)$(MAKE) deb
	$(Q)tests/run.sh --two live check unit fleet page query ship kubernetes fuzz qemu-rdt package-6.1 -- --two vm-6.1-some vm-6.12-rt-some rdt-6.1-some vm-7.3-some vm-7.0-some

test-unit: deps-test ## unit and property tests, golden files; no root
	$(Q)$(MAKE) $(B)/unit_tests $(BENCHMARKS) $(B)/slotscope
	$(Q)tests/run.sh unit

test-page: deps-test ## the report's page in headless Chromium; root
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)tests/run.sh page

test-query: deps-test ## slotscope query, against the tables that it reads; fetches DuckDB once, by npm
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)tests/run.sh query

test-ship: deps-test ## slotscope ship, into the real ClickHouse, which has a bad day; fetches it once, and DuckDB
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)tests/run.sh ship

test-ship-newer: deps-test ## the same into today's ClickHouse, as far as its version matters; fetches it once (178 MB)
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)tests/run.sh ship-newer

test-kubernetes: deps-test deps-image ## the manifests against the API's schema (by npm); the image, and what it does with the rights of the manifest; root
	$(Q)$(MAKE) image
	$(Q)tests/run.sh kubernetes image

test-fleet: deps-test ## eight simulated nodes and the real Prometheus, which has a bad day
	$(Q)$(MAKE) $(B)/fleet_tests
	$(Q)tests/run.sh fleet

test-live: deps-test ## on this kernel, eBPF source; root
	$(Q)$(MAKE) all $(B)/live_tests
	$(Q)scripts/portable.sh $(B)/slotscope $(B)/portable
	$(Q)tests/run.sh live

test-vm: deps-test ## module and eBPF source in guests of all kernels from 6.1 to 7.3, as a table; 90 minutes
	$(Q)$(MAKE) all $(B)/live_tests
	$(Q)tests/run.sh vm-matrix

# STRESS_SECONDS=...; the kernel is built once, in 20 minutes.
test-vm-debug: deps-test ## the module and its relay on a kernel with KASAN, lockdep, kmemleak; a stress of 10 minutes
	$(Q)$(MAKE) all $(B)/live_tests
	$(Q)tests/run.sh vm-debug

test-package: deps-package ## installs, uses and removes the Debian packages, in an overlay; dkms; root
	$(Q)$(MAKE) deb
	$(Q)tests/run.sh package

test-rdt: deps-test ## the module on emulated RDT hardware, against the emulator's truth; builds a QEMU once
	$(Q)$(MAKE) all $(B)/live_tests
	$(Q)tests/run.sh rdt

# Sanitizers have build folders of their own, and compile file by file, each on its own.
SAN_TESTS := $(MAKE) PCH= UNITY= CXXFLAGS="-O1 -g -fno-omit-frame-pointer
test-san: deps-test ## the unit tests with ASan and UBSan, and with TSan
	$(Q)$(SAN_TESTS) -fsanitize=address,undefined -fno-sanitize-recover=undefined" B=$(B)/asan $(B)/asan/unit_tests
	$(Q)$(SAN_TESTS) -fsanitize=thread" B=$(B)/tsan $(B)/tsan/unit_tests $(B)/tsan/fleet_tests
	$(Q)tests/run.sh san

# FUZZ_SECONDS=... for each target; findings are left in build/fuzz.
fuzz: deps-test ## libFuzzer: all that is read from others, and options
	$(Q)$(MAKE) fuzzers
	$(Q)tests/fuzz/run.sh $(F) $(or $(FUZZ_SECONDS),60)

fuzzers: $(FUZZERS)

bench: deps-test ## the engine on one core: events/s, rows/s, bytes/s, peak memory; whole processes
	$(Q)$(MAKE) $(B)/bench_pipeline_bench $(B)/slotscope
	$(Q)bench/engine.py $(B)

bench-detect: deps-test ## the detectors on a job of 1024 ranks, on logs and events; one core
	$(Q)$(MAKE) $(B)/bench_detect_bench
	$(Q)$(B)/bench_detect_bench

bench-live: deps-test deps-peers ## what it costs this machine to be watched, beside perf and bpftrace; root
	$(Q)$(MAKE) all $(B)/pingpong $(B)/cudacalls $(STANDIN)
	$(Q)bench/live.py $(B)

SOAK_SECONDS ?= 600

soak: deps-test ## months of a recorder's life in SOAK_SECONDS (600): churn, full disks, kills; does it grow? root
	$(Q)$(MAKE) all $(B)/live_tests
	$(Q)tests/soak/soak.py $(B) $(SOAK_SECONDS)
	$(Q)SLOTSCOPE_BINARY=$(abspath $(B))/slotscope SLOTSCOPE_COPIES=2000 $(B)/live_tests --gtest_filter='Cuda.ManyCopies*'

soak-service: deps-test ## the service's command in real time, SOAK_SECONDS long: what it takes, a line for each twelfth; root
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)tests/soak/service.py $(B) $(SOAK_SECONDS)

bench-fleet: deps-test ## 1,000 machines ship into the real ClickHouse: rows, bytes, times; NODES=...; root
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)bench/fleet_database.py $(B)/slotscope $(NODES)

bench-ring: deps-test ## what the service's ring holds of a generated machine of 128 CPUs
	$(Q)$(MAKE) $(B)/slotscope
	$(Q)bench/ring.py $(B)/slotscope

bench-wide: deps-test ## what a recording of 256 CPUs takes, whose rings are filled at live speed on those that there are; root
	$(Q)$(MAKE) $(B)/bench-wide
	$(Q)$(B)/bench-wide 256 5000 20
	$(Q)$(B)/bench-wide 256 7000 20

bench-vm: deps-test ## what the module costs, in instructions, in guests that count them; KERNEL=6.1 6.12
	$(Q)$(MAKE) $(B)/instructions $(B)/slotscope $(foreach kernel,$(or $(KERNEL),6.1 6.12),$(B)/kmod/$(kernel)/slotscope.ko)
	$(Q)bench/vm.py $(B) $(or $(KERNEL),6.1 6.12)

check: deps-test ## formats, kernel style, sparse, cppcheck, and who may include whom
	$(Q)$(MAKE) bpf
	$(Q)scripts/check.sh

fmt: ## formats the C++ sources
	$(Q)clang-format -i $$(git ls-files --cached --others --exclude-standard '*.cc' 'collector/*.h' 'tests/*.h' 'bench/*.h')

## ---- install

# Man pages and completion, made of what the program says of itself.
$(B)/manual/zsh: $(B)/slotscope scripts/manual.py doc/columns.md doc/recordings.md
	$(call msg,MAN,$(@D))
	$(Q)scripts/manual.py $(B)/slotscope $(@D)

manual: $(B)/manual/zsh ## man pages and completion, to build/manual

docs: all ## the outputs and the pictures in README.md and doc/, anew, on this machine; root, chromium
	$(Q)$(MAKE) $(B)/demo/trainer $(STANDIN)
	$(Q)scripts/docs.py $(B)/slotscope

# Where zsh looks for the completion of others.
ZSH_FOLDER := share/zsh/site-functions
install: all manual ## the collector, its man pages and completion, to PREFIX (default /usr/local)
	$(Q)install -D -m 755 $(B)/slotscope $(DESTDIR)$(PREFIX)/bin/slotscope
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/slotscope/prometheus deploy/prometheus/slotscope.rules.yml deploy/prometheus/prometheus.yml
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/slotscope/clickhouse deploy/clickhouse/*.sql
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/slotscope/schemas deploy/schemas/*.schema.json
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(B)/manual/man1/*
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 $(B)/manual/man5/*
	$(Q)install -D -m 644 $(B)/manual/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/slotscope
	$(Q)install -D -m 644 $(B)/manual/zsh $(DESTDIR)$(PREFIX)/$(ZSH_FOLDER)/_slotscope

uninstall: ## what install has put there
	$(Q)rm -rf $(DESTDIR)$(PREFIX)/bin/slotscope $(DESTDIR)$(PREFIX)/share/slotscope $(DESTDIR)$(PREFIX)/share/man/man1/slotscope*.1 \
		$(DESTDIR)$(PREFIX)/share/man/man5/slots.csv.5 $(DESTDIR)$(PREFIX)/share/bash-completion/completions/slotscope \
		$(DESTDIR)$(PREFIX)/$(ZSH_FOLDER)/_slotscope

# DKMS builds from a copy, so a later change here does not reach a kernel by itself.
DKMS_SRC := $(DESTDIR)/usr/src/slotscope-$(VERSION)
dkms-install: ## the module through dkms: for the running kernel, or KVER=...
	$(Q)scripts/dkms-install.sh "$(DKMS_SRC)" "$(VERSION)" "$(KVER)"

image: deps-image ## build/slotscope-image.tar: an image for containers, of Debian's packages and ours; see doc/kubernetes.md
	$(Q)$(MAKE) deb
	$(Q)scripts/image.sh $(B)/slotscope-image.tar

deb: deps-deb all ## Debian packages, under build/deb: slotscope and slotscope-dkms
	$(Q)scripts/make-deb.sh $(B)

clean: ## removes build/
	$(Q)rm -rf $(B)

.PHONY: FORCE help all bpf bpf-syntax collector kmod run demo vm-run test test-unit test-live test-vm test-vm-debug test-page test-query test-ship test-ship-newer test-kubernetes test-package test-rdt test-san fuzz bench bench-detect bench-live bench-fleet bench-ring bench-wide bench-vm soak soak-service fuzzers check fmt manual docs install uninstall dkms-install deb image clean
