# make help lists the targets. V=1 shows commands; SAN=address,undefined or SAN=thread builds with
# sanitizers and FAULT=1 with failpoints (lib/base/core/fail.h), each into a folder of its own; both
# check the order of locks (lib/base/core/lock.h), and LOCKS=1 does nothing else.

CC ?= gcc
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
CFLAGS ?= -O2 -g
PROGRAMS = ps-serve ps-work ps-ctl ps-stat

comma := ,
SAN ?=
FAULT ?=
LOCKS ?=
# Objects and programs with sanitizers, failpoints or assertions of locks live apart from the plain ones.
BUILD := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))$(if $(FAULT),/fault-points)$(if $(LOCKS),/locks)
OBJ := $(BUILD)/obj

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion -Wformat=2 \
       -Wno-sign-conversion
# Includes name a folder and a file: "shard/part.h". Folders of all floors have different names.
FLOORS = lib/base lib/net lib/learn lib/cluster lib/role
STD = -std=c11 -D_GNU_SOURCE $(addprefix -I,$(FLOORS)) -Ilib -I. -include lib/base/core/banned.h -fno-math-errno -fno-trapping-math \
      -fvisibility=hidden -fPIC -pthread
ifeq ($(WERROR),1)
WARN += -Werror
endif
ifneq ($(SAN),)
STD += -fsanitize=$(SAN) -fno-omit-frame-pointer -DPS_SANITIZED=1 -DLOCK_CHECK=1
LDSAN = -fsanitize=$(SAN)
CFLAGS := -O1 -g
export PS_SANITIZED = 1
export TSAN_OPTIONS ?= suppressions=$(CURDIR)/tests/lib/tsan.suppress
endif
ifneq ($(FAULT),)
STD += -DPS_FAULT=1 -DLOCK_CHECK=1
endif
ifneq ($(LOCKS),)
STD += -DLOCK_CHECK=1
endif
LIBS = -lmicrohttpd -ljansson -lsodium -lcrypto -lzstd -lz -lm -ldl -pthread
EXPAT = -lexpat
KAFKA = -lrdkafka
# libcurl, librdkafka and OpenBLAS are not linked: programs load them at the first call (lib/base/core/lazy_load.h).
# ps-ctl and ps-stat load libcrypto so, too.
LAZY_CRYPTO = lib/net/auth/lazy_crypto.c

# What the library for others has beside all the rest.
PUBSRC := $(sort $(wildcard lib/pskit/*.c))
PUBOBJ := $(PUBSRC:%.c=$(OBJ)/%.o)
LIBSRC := $(sort $(filter-out $(if $(FAULT),,lib/base/core/fail.c) $(LAZY_CRYPTO) $(PUBSRC),$(wildcard lib/*/*.c lib/*/*/*.c lib/*/*/*/*.c)))
LIBOBJ := $(LIBSRC:%.c=$(OBJ)/%.o)
LIB := $(BUILD)/libps.a
PUBLIC := $(BUILD)/libpskit.so.0 $(BUILD)/libpskit.a $(BUILD)/pskit.pc
BINS := $(PROGRAMS:%=$(BUILD)/%)
UNITSRC := $(sort $(wildcard tests/unit/*.c))
UNITS := $(UNITSRC:tests/unit/%.c=$(BUILD)/tests/%)
BENCHSRC := $(sort $(wildcard tests/bench/*.c))
BENCHES := $(BENCHSRC:tests/bench/%.c=$(BUILD)/bench/%)
FUZZSRC := $(sort $(filter-out tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c)))
FUZZERS := $(FUZZSRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)
FAULTKIT := $(BUILD)/fault/proxy $(BUILD)/fault/ledger $(BUILD)/fault/switch $(BUILD)/fault/shim.so $(BUILD)/fault/old_blas.so $(BUILD)/fault/older-work $(BUILD)/fault/kafka $(BUILD)/fault/ask

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2))

all: $(BINS) $(PUBLIC) ## build the four programs and the public library into build/

KERNELS = $(patsubst %.c,$(OBJ)/%.o,$(filter-out lib/base/math/blas%,$(wildcard lib/base/math/*.c lib/learn/optim/*.c lib/learn/codec/*.c)))
# The numeric kernels: vectorised, and with the same bits on every machine.
$(KERNELS): STD += -O3 -ffp-contract=off
# Parsers are many small functions. Where each begins a cache line, their speed does not depend on what
# else is linked: it differed by up to a tenth.
$(OBJ)/lib/learn/data/%.o: STD += -falign-functions=64
$(OBJ)/lib/base/math/blas%.o $(OBJ)/lib/learn/loss/%.o $(OBJ)/lib/learn/model/%.o $(OBJ)/lib/cluster/shard/change_log.o: STD += -O3
# They include the kernels, to have them for other instruction sets.
$(BUILD)/tests/variant_%: private STD += -O3 -ffp-contract=off

$(OBJ)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(STD) $(WARN) -MMD -MP -c $< -o $@

# The dashboard's page: its own files, and the charting library that Debian packages;
# packed, for lib/web/web_assets.c to take in.
WEB := $(OBJ)/page
DYGRAPHS ?= /usr/share/javascript/dygraphs
PAGE_JS := $(patsubst %,lib/web/page/%.js,text net chart rows state change next main)
$(DYGRAPHS)/%:
	@echo "$@ is not there: install libjs-dygraphs (make deps), or set DYGRAPHS" >&2; exit 1
$(WEB)/index.html: lib/web/page/index.html
$(WEB)/icon.svg: lib/web/page/icon.svg
$(WEB)/app.css: $(DYGRAPHS)/dygraph.css lib/web/page/app.css
$(WEB)/app.js: lib/web/page/dygraphs.notice $(DYGRAPHS)/dygraph.min.js $(PAGE_JS)
$(WEB)/%: Makefile
	$(call say,WEB,$@)
	$(Q)mkdir -p $(@D)
	$(Q)cat $(filter-out Makefile,$^) > $@
$(WEB)/%.gz: $(WEB)/%
	$(Q)gzip -9nc $< > $@
PAGE := $(addprefix $(WEB)/,index.html.gz app.js.gz app.css.gz icon.svg.gz)
PAGE_AT = -DPS_WEB='"$(WEB)"'
$(OBJ)/lib/web/web_assets.o: $(PAGE)
$(OBJ)/lib/web/web_assets.o: private STD += $(PAGE_AT)

# Removed first: ar would keep members whose source is gone.
$(LIB): $(LIBOBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIBOBJ)

# The library for others: of all the rest what it needs, and its own symbols alone.
PUBLIBS = -ljansson -lsodium -lcrypto -lzstd -lz -lm -pthread
$(BUILD)/libpskit.so.0: $(PUBOBJ) $(LIB) lib/pskit/pskit.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $(LDSAN) -Wl,-soname,libpskit.so.0 -Wl,--version-script=lib/pskit/pskit.map \
	    $(if $(SAN),,-Wl,-z$(comma)defs) $(PUBOBJ) $(LIB) -Wl,--as-needed $(PUBLIBS) -o $@
	$(Q)ln -sf libpskit.so.0 $(BUILD)/libpskit.so
$(BUILD)/libpskit.a: $(PUBOBJ) $(LIB)
	$(call say,AR,$@)
	$(Q)$(LD) -r $(PUBOBJ) $(LIB) -o $(OBJ)/pskit.o
	$(Q)objcopy -w --keep-global-symbol='ps_*' $(OBJ)/pskit.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(OBJ)/pskit.o
$(BUILD)/pskit.pc: Makefile lib/base/core/version.h
	$(call say,GEN,$@)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'Name: pskit' 'Description: a parameter server: worker and client library' \
	    "Version: $$(sed -n 's/.*PSKIT_VERSION "\(.*\)".*/\1/p' lib/base/core/version.h)" 'Cflags: -I$${prefix}/include' \
	    'Libs: -L$${libdir} -lpskit' 'Libs.private: $(PUBLIBS)' > $@

CTLOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/ctl/*.c)))
STATOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/stat/*.c)))
WORKOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/work/*.c)))
$(BUILD)/ps-ctl: $(CTLOBJ)
$(BUILD)/ps-work: $(WORKOBJ)
$(BUILD)/ps-stat: $(STATOBJ)
$(BUILD)/ps-ctl $(BUILD)/ps-stat: $(LAZY_CRYPTO:%.c=$(OBJ)/%.o)
$(BUILD)/ps-ctl $(BUILD)/ps-stat: PROGLIBS = $(EXPAT)

$(BINS): $(BUILD)/%: $(OBJ)/cmd/%.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(LDSAN) $(filter %.o,$^) $(LIB) -Wl,--as-needed $(PROGLIBS) $(LIBS) -o $@

# All update rules and codecs once more, under the names AGAIN(NAME), for the tests that compile them
# for another processor. A file of a codec may define several of them.
AGAIN := $(OBJ)/tests/again
$(AGAIN)/rules.h: lib/learn/optim/optim.def Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)sed -n 's|^RULE(\([a-z0-9_]*\),.*|#define optim_rule_\1 AGAIN(\1)\n#include "optim/optim_\1.c"|p' $< > $@
$(AGAIN)/codecs.h: lib/learn/codec/codec.def $(wildcard lib/learn/codec/codec_*.c) Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)sed -n 's|^CODEC(\([a-z0-9_]*\),.*|#define codec_\1 AGAIN(\1)|p' $< > $@
	$(Q)printf '#include "%s"\n#undef BLOCK\n#undef LEVELS_MAX\n' $(patsubst lib/learn/%,%,$(filter %.c,$^)) >> $@
$(filter $(BUILD)/tests/optim $(BUILD)/tests/variant_%,$(UNITS)): $(AGAIN)/rules.h $(AGAIN)/codecs.h

$(BUILD)/tests/%: tests/unit/%.c tests/unit/tap.h $(LIB)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -Itests/unit -I$(OBJ)/tests -MMD -MP $< $(LDSAN) $(LIB) -Wl,--as-needed $(EXPAT) $(LIBS) -o $@

$(BUILD)/bench/%: tests/bench/%.c $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -Itests/bench -MMD -MP $(filter %.c,$^) $(LDSAN) $(LIB) -Wl,--as-needed $(EXPAT) $(LIBS) -o $@

$(BUILD)/bench/scale_fleet: tests/bench/fleet/worker.c tests/bench/fleet/fleet.h

# Replays tests/fuzz/corpus/NAME through the harness; `make fuzz` runs libFuzzer.
$(BUILD)/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -MMD -MP $< tests/fuzz/driver.c $(LDSAN) $(LIB) -Wl,--as-needed $(EXPAT) $(LIBS) -o $@

# The fault kit: several sources each, named after the program.
$(BUILD)/fault/proxy $(BUILD)/fault/ledger $(BUILD)/fault/switch: $(BUILD)/fault/%: $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LDSAN) $(filter %.o,$^) $(LIB) -Wl,--as-needed $(LIBS) -o $@
$(foreach p,proxy ledger switch,$(eval $(BUILD)/fault/$(p): \
  $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard tests/fault/$(p)*.c)))))

# Brokers of Kafka, in one process (librdkafka's mock cluster).
$(BUILD)/fault/kafka: tests/fault/kafka.c
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -std=c11 -D_GNU_SOURCE $(WARN) $< -Wl,--as-needed $(KAFKA) -o $@

# Static and without sanitizers: it takes little processor time.
$(BUILD)/fault/ask: tests/fault/ask.c
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -std=c11 -D_GNU_SOURCE $(WARN) -static $< -o $@

# Loaded into any program, so without sanitizers.
$(BUILD)/fault/shim.so $(BUILD)/fault/old_blas.so: $(BUILD)/fault/%.so: tests/fault/%.c
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -std=c11 -D_GNU_SOURCE -fPIC -shared $(WARN) $< -ldl -o $@

# A worker of a pskit that says it is another version.
$(OBJ)/tests/fault/older-%.o: lib/cluster/session/%.c Makefile
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(STD) $(WARN) -DPSKIT_VERSION='"0.0.9"' -MMD -MP -c $< -o $@
$(BUILD)/fault/older-work: $(OBJ)/cmd/ps-work.o $(WORKOBJ) $(OBJ)/tests/fault/older-agent.o $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LDSAN) $(filter %.o,$^) $(LIB) -Wl,--as-needed $(LIBS) -o $@

# ---- the cluster in virtual time ------------------------------------------------
# ps-serve, ps-work, the ledger and the library become one object, in which the calls of the system are those
# of the simulator (read becomes sim_read), and static variables lie where it can exchange them.
# libmicrohttpd's threads cannot be simulated: control_server.c stands in for the listeners, and curl.c for libcurl.
SIMOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(filter-out tests/sim/control_server.c,$(wildcard tests/sim/*.c))))
SIMAPP := $(OBJ)/cmd/ps-serve.o $(OBJ)/cmd/ps-work.o $(WORKOBJ) $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard tests/fault/ledger*.c))) \
          $(OBJ)/tests/sim/control_server.o
SIMULATED := $(OBJ)/tests/sim/simulated
$(SIMULATED)/app.o: $(SIMAPP) $(SIMOBJ) $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)cp $(LIB) $(@D)/library.a
	$(Q)$(AR) d $(@D)/library.a lazy_curl.o lazy_gnutls.o predict_http.o \
	    $(addprefix http_,$(addsuffix .o,server request access conns guard reply exchange routes))
	$(Q)for o in $(SIMAPP); do objcopy --redefine-sym main=$$(basename $$o .o | tr - _)_main $$o $(@D)/$$(basename $$o); done
	$(Q)$(LD) -r $$(sed -n 's|^WRAP(\(.*\))|--undefined=\1 --wrap=\1|p' tests/sim/chain_calls.def) $(patsubst %,$(@D)/%,$(notdir $(SIMAPP))) $(@D)/library.a -o $(@D)/whole.o
	$(Q)sed -n 's|^CALL(\(.*\))|\1 sim_\1|p' tests/sim/calls.def > $(@D)/calls; echo __assert_fail sim___assert_fail >> $(@D)/calls
	$(Q)objcopy --rename-section .data=appdata --rename-section .bss=appbss --redefine-syms=$(@D)/calls \
	    --globalize-symbol=ps_serve_main --globalize-symbol=ps_work_main --globalize-symbol=ledger_main $(@D)/whole.o $@
$(BUILD)/sim: $(SIMOBJ) $(SIMULATED)/app.o
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -no-pie $^ $(filter-out -lmicrohttpd,$(LIBS)) -o $@
sim: deps ## run clusters in virtual time, SEEDS of them (200)
	@$(MAKE) --no-print-directory $(BUILD)/sim
	@$(BUILD)/sim --seeds $(or $(SEEDS),200)
sim-soak: deps ## run clusters in virtual time from fresh seeds until interrupted
	@$(MAKE) --no-print-directory $(BUILD)/sim
	@$(BUILD)/sim --soak

units: $(UNITS) ## build the unit tests
# With sanitizers there is no simulator: they have memory and threads of their own.
faultkit: $(FAULTKIT) $(if $(SAN)$(FAULT)$(LOCKS),,$(BUILD)/sim) ## build the proxy, ledger, shims and simulator of the fault tests
fuzzers: $(FUZZERS) ## build the fuzz harnesses, which replay their corpus
benches: $(BENCHES) ## build the benchmarks

# ---- what is needed, by Debian's names ----------------------------------------
PACKAGES = gcc libc6-dev pkg-config libsodium-dev libssl-dev libjansson-dev libcurl4-openssl-dev libexpat1-dev libmicrohttpd-dev \
           zlib1g-dev libzstd-dev uthash-dev libopenblas-serial-dev librdkafka-dev librocksdb-dev libjs-dygraphs dataset-fashion-mnist
CHECK_PACKAGES = bats mandoc jq curl python3 python3-numpy python3-onnx perl iproute2 procps prometheus tmux gnuplot-nox chromium \
                 chromium-driver xdg-utils zsh fish systemd openssh-server openssh-client openmpi-bin slurm-wlm munge spin kcat etcd-server redis-server redis-tools

# Where npm puts the store that tests/77-objects.bats speaks S3 with.
NPM = build/npm

# Asks apt only when something is missing. Another apt may be at work: its locks are waited for, 10 minutes at most.
install_packages = @missing=$$(for p in $(1); do \
	  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "installing: "$$missing; \
	  $$sudo apt-get -o DPkg::Lock::Timeout=600 update -q >/dev/null && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends $$missing >/dev/null; \
	fi

deps: ## install what the build needs (Debian)
	$(call install_packages,$(PACKAGES))
deps-check: deps ## install what the tests need
	$(call install_packages,$(CHECK_PACKAGES) $(if $(shell command -v npm 2>/dev/null),,npm))
	@[ -e $(NPM)/node_modules/s3rver ] || npm install --prefix $(NPM) --no-audit --no-fund --loglevel=error s3rver@3.7.1 >/dev/null || \
	  echo "npm's s3rver cannot be had: tests/77-objects.bats is skipped"
deps-lint: deps ## install what make lint needs
	$(call install_packages,clang clang-format clang-tidy cppcheck shellcheck codespell mandoc)
# Large (140 MB to fetch), and for what has to do with torch alone: tests/78-torch.bats is skipped without it.
deps-torch: deps ## install PyTorch, for tests/78 and three benchmarks
	$(call install_packages,python3-torch)

# ---- trying it ------------------------------------------------------------------
# Built by a second make: what deps has just installed must be seen.
demo: deps ## build, and train on Fashion-MNIST
	@$(MAKE) --no-print-directory all
	@contrib/demo/run $(BUILD)

# ---- tests ------------------------------------------------------------------------
# TAP programs and bats files under one prove; the plain closing line is prove's.
check: deps-check ## run every test
	@$(MAKE) --no-print-directory all units fuzzers faultkit
	@rm -rf $(BUILD)/tap
	@PS_BIN=$(BUILD) prove -j $(JOBS) --merge --timer --failures --comments --exec tests/lib/tap-run $(TESTS) || \
	  { echo "What failed:"; (cd $(BUILD)/tap && grep -A 4 '^not ok' *) | cut -c -300; exit 1; }

# Takes hours: sanitizers slow everything down, and tests wait longer then (PS_SANITIZED).
check-san: deps-check ## run every test with ASan and UBSan, then with TSan
	@$(MAKE) --no-print-directory SAN=address,undefined check
	@$(MAKE) --no-print-directory SAN=thread check

# As quick as check: finds functions whose caller does not hold the lock that they need, locks in the
# wrong order, and structs in the hands of a thread that does not own them.
check-locks: deps-check ## run every test with assertions of locks (core/lock.h)
	@$(MAKE) --no-print-directory LOCKS=1 check

# Most of the time of a test is waiting, so three times as many run as there are cores. The longest
# files come first, so that none of them is left over at the end.
JOBS ?= $(shell echo $$((3 * $$(nproc))))
LONGEST = 49 48 81 45 63 79 41 42 24 32 80 65 33 56 66 61 51 29 28 20 83 67 25 58 64 34
BATS ?= $(foreach n,$(LONGEST),$(wildcard tests/$(n)-*.bats)) \
        $(filter-out $(LONGEST:%=tests/%-%),$(sort $(wildcard tests/*.bats)))
# What runs alone (tests/lib/tap-run) waits until no other test is left.
ALONE = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(shell grep -l 'Alone: ' tests/unit/*.c))
TESTS ?= $(BATS) $(filter-out $(ALONE),$(UNITS)) $(FUZZERS) $(ALONE)

bench: deps ## rates of push, pull and training
	@$(MAKE) --no-print-directory all benches
	@tests/bench/run $(BUILD)

bench-pslite: deps ## TCP beside ps-lite, whose sources are in SOURCE=DIR
	@$(MAKE) --no-print-directory all
	@tests/bench/pslite $(BUILD) $(SOURCE)

bench-wire: deps ## codecs and local steps on slow links (ps-bandwidth(7))
	@$(MAKE) --no-print-directory all faultkit
	@tests/bench/wire $(BUILD)

bench-rows: deps ## bytes of sparse rows on the wire (ps-bandwidth(7))
	@$(MAKE) --no-print-directory all
	@tests/bench/rows $(BUILD)

bench-lookahead: deps ## rows that are requested ahead, on slow links (ps-bandwidth(7))
	@$(MAKE) --no-print-directory all
	@tests/bench/lookahead $(BUILD)

bench-sparse: deps ## cipher suites and sparse tables (ps-performance(7))
	@$(MAKE) --no-print-directory all benches
	@tests/bench/sparse $(BUILD)

bench-plan: deps ## ps-ctl plan beside real clusters of this host
	@$(MAKE) --no-print-directory all faultkit
	@tests/bench/plan $(BUILD)

bench-stragglers: deps ## cost of slow workers in each mode (ps-bandwidth(7))
	@$(MAKE) --no-print-directory all
	@tests/bench/stragglers $(BUILD)

bench-watch: deps ## cost of monitoring (ps-metrics(7))
	@$(MAKE) --no-print-directory all
	@tests/bench/watch $(BUILD)
bench-adapt: deps ## gain of adaptive settings (ps-cluster(5))
	@$(MAKE) --no-print-directory all
	@tests/bench/adapt $(BUILD)

bench-ring: deps-torch ## all-reduce beside gloo
	@$(MAKE) --no-print-directory all
	@tests/bench/ring $(BUILD)
bench-torch: deps-torch ## a CNN beside DistributedDataParallel
	@$(MAKE) --no-print-directory all
	@tests/bench/torch $(BUILD)
bench-dlrm: deps-torch ## a recommender beside nn.EmbeddingBag, with TRAIN and TEST (files of clicks)
	@$(MAKE) --no-print-directory all
	@tests/bench/dlrm $(BUILD) $(TRAIN) $(TEST)

# How cost grows with workers, servers, parameters and tables; plots, where gnuplot can be had.
bench-scale: deps-check ## cost by number of workers, servers, parameters, tables
	-$(call install_packages,gnuplot-nox)
	@$(MAKE) --no-print-directory all benches
	@tests/bench/scale $(BUILD)

bench-train: deps ## training from end to end (ps-performance(7))
	@$(MAKE) --no-print-directory all
	@tests/bench/train $(BUILD)

bench-models: deps ## factor models beside one process
	@$(MAKE) --no-print-directory all benches
	@tests/bench/models $(BUILD)

bench-batches: deps ## what models learn with the same constants, by the batch and the workers
	@$(MAKE) --no-print-directory all
	@tests/bench/batches $(BUILD)

bench-quality: deps ## what models learn with defaults, beside other programs (ps-models(7))
	-$(call install_packages,python3-numpy python3-sklearn liblinear-tools fasttext python3-xgboost)
	@$(MAKE) --no-print-directory all
	@tests/bench/quality $(BUILD)

bench-serve: deps ## predictions a second on one core
	@$(MAKE) --no-print-directory all
	@tests/bench/serve $(BUILD)

bench-tiers: deps ## tables that do not fit into the server's memory, as root; ROWS=78000000 LIMIT=512
	@$(MAKE) --no-print-directory all
	@tests/bench/tiers $(BUILD)

bench-replica: deps ## what a read replica of a large table costs the cluster; ROWS=20000000
	@$(MAKE) --no-print-directory all
	@tests/bench/replica $(BUILD)

bench-nearest: deps ## nearest rows beside a plain read and multiply-adds (ps-performance(7))
	@$(MAKE) --no-print-directory $(BUILD)/bench/nearest
	@$(BUILD)/bench/nearest

bench-redis: deps ## look-ups in Redis' protocol beside redis-server (ps-performance(7))
	-$(call install_packages,redis-server redis-tools)
	@$(MAKE) --no-print-directory all
	@tests/bench/redis $(BUILD)

bench-http: deps ## predictions over HTTP (wrk): one row and 64 rows a request, beside 10,000 idle connections
	@$(MAKE) --no-print-directory all
	@tests/bench/http $(BUILD)

bench-blocks: deps ## data in blocks beside data in memory (ps-performance(7)); SIZE=1G, RUNS=3
	@$(MAKE) --no-print-directory all benches
	@tests/bench/blocks $(BUILD)

# First the tests that are slow, and those that inject faults, with HARDER times as many faults at random. Then with
# failpoints; SOAK is how long, SEED which faults (tests/fault/soak). BLOCK_KILLS and EVENT_KILLS are kills while a job
# trains on data in blocks and on streams.
SOAK ?= 10m
HARDER ?= 10
BLOCK_KILLS ?= 200
EVENT_KILLS ?= 100
HARM = worker-0 worker-1 worker-2 server-0 server-1 coordinator all stop:worker-0 stop:server-1 stop:coordinator
soak: deps-check deps-packages ## slow tests, then faults at random for SOAK (10m)
	@TAGS=slow SEED=$(SEED) $(MAKE) --no-print-directory check TESTS="$(shell grep -lE '_tags=.*\bslow' tests/*.bats)"
	@TAGS='fault,!slow' HARDER=$(HARDER) SEED=$(SEED) $(MAKE) --no-print-directory check JOBS=1 \
	    TESTS="$(shell grep -lE '_tags=.*\bfault' tests/*.bats)"
	@$(MAKE) --no-print-directory $(BUILD)/sim
	@timeout --preserve-status --signal INT $(SOAK) $(BUILD)/sim --soak
	@$(MAKE) --no-print-directory FAULT=1 all faultkit
	@PS_BIN=$(BUILD) tests/fault/pods
	@for sync in bsp asp; do for store in 0 1; do \
	    SYNC=$$sync STORE=$$store PS_BIN=$(BUILD) tests/fault/hostcut 30 || exit 1; done; done
	@PS_BIN=$(BUILD)/fault-points tests/fault/owners 250
	@PS_BIN=$(BUILD)/fault-points SYNC=asp tests/fault/owners 250
	@PS_BIN=$(BUILD)/fault-points tests/fault/soak $(SOAK)
	@PS_BIN=$(BUILD)/fault-points tests/fault/failover 100
	@PS_BIN=$(BUILD)/fault-points tests/fault/early 200
	@PS_BIN=$(BUILD)/fault-points ROWS=800000 LEAST=$(BLOCK_KILLS) tests/fault/examples $(BLOCK_KILLS)
	@PS_BIN=$(BUILD)/fault-points ROWS=800000 LEAST=$(BLOCK_KILLS) SYNC=ssp:3 VICTIMS="$(HARM)" tests/fault/examples $(BLOCK_KILLS)
	@PS_BIN=$(BUILD)/fault-points EVENTS=200000 VICTIMS="$(HARM) reader" tests/fault/events $(EVENT_KILLS)
	@PS_BIN=$(BUILD)/fault-points EVENTS=200000 SYNC=bsp VICTIMS="$(HARM) reader" tests/fault/events $(EVENT_KILLS)
	@PS_BIN=$(BUILD)/fault-points EVENTS=200000 SOURCE=file SYNC=ssp:3 tests/fault/events $(EVENT_KILLS)

# The network cut in every way between the hosts of a cluster, and CUTS times at random; as root.
CUTS ?= 2000
cuts: deps-check ## cut and delay single links CUTS (2000) times; as root
	@$(MAKE) --no-print-directory all faultkit
	@PS_BIN=$(BUILD) tests/fault/cuts all
	@PS_BIN=$(BUILD) tests/fault/cuts many $(CUTS)

# ---- checks of the sources ------------------------------------------------------------
# The examples are as short as a manual shows them, and in their own format.
# Files that are new and not yet in the index belong to them, too.
CFILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h' ':!contrib/examples' 2>/dev/null)
LINTED = $(shell git ls-files -co --exclude-standard 'lib/*.c' 'cmd/*.c' 2>/dev/null)
SCRIPTS = $(shell git grep -lE '^\#!.*[/ ](sh|bash)$$' -- ':!*.bats' 2>/dev/null)
format: ## format the sources of C
	@clang-format -i $(CFILES)

lint: deps-lint ## check sources, scripts and manual pages
	clang-format --dry-run -Werror $(CFILES)
	sh tests/lib/check-layers
	sh tests/lib/check-file-names
	python3 tests/lib/check-comment-names
	mandoc -Tlint -W warning man/*
	codespell
	shellcheck -S warning $(SCRIPTS)
	cppcheck -j2 --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppressions-list=tests/lib/cppcheck.suppress --library=tests/lib/cppcheck.cfg -D_GNU_SOURCE $(addprefix -I,$(FLOORS)) -Ilib -I. lib cmd
	@$(MAKE) --no-print-directory $(PAGE) compile_commands.json
	printf '%s\n' $(LINTED) | xargs -P2 -n8 clang-tidy --quiet -p .

check-lab-free: deps ## build without the planner, the sweeps and the reports
	@tests/lib/build-without-lab $(BUILD)/lab-free

compile_commands.json: Makefile ## write the commands of the compiler, for clangd and clang-tidy
	@FLAGS='$(STD)' WEB='$(WEB)' tests/lib/compile-commands $(LINTED) > $@

# clang builds the library once for all harnesses.
FUZZ_BUILD = build/san-fuzzer-no-link-address-undefined
fuzz: ## fuzz each harness with libFuzzer for FUZZ_SECONDS (60)
	@$(MAKE) --no-print-directory CC=clang SAN=fuzzer-no-link,address,undefined $(FUZZ_BUILD)/libps.a
	@for f in $(FUZZSRC); do n=$$(basename $$f .c); \
	  clang -g -O1 $(filter-out -fvisibility=hidden,$(STD)) -fsanitize=fuzzer,address,undefined $$f $(FUZZ_BUILD)/libps.a \
	    -Wl,--as-needed $(EXPAT) $(LIBS) -o $(FUZZ_BUILD)/$$n && \
	  $(FUZZ_BUILD)/$$n -max_total_time=$${FUZZ_SECONDS:-60} tests/fuzz/corpus/$$n || exit 1; done

# ---- installing ---------------------------------------------------------------------
INSTALL ?= install
# Where each shell looks for completions of programs that others install.
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/vendor-completions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
install: all ## install below PREFIX (/usr/local), LIBDIR (PREFIX/lib) and DESTDIR
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin
	$(INSTALL) -m 755 $(BUILD)/ps-serve $(BUILD)/ps-work $(BUILD)/ps-ctl $(BUILD)/ps-stat $(DESTDIR)$(PREFIX)/bin
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	$(INSTALL) -m 644 $(BUILD)/libpskit.so.0 $(BUILD)/libpskit.a $(DESTDIR)$(LIBDIR)
	ln -sf libpskit.so.0 $(DESTDIR)$(LIBDIR)/libpskit.so
	sed 's|^prefix=.*|prefix=$(PREFIX)|; s|^libdir=.*|libdir=$(LIBDIR)|' $(BUILD)/pskit.pc > $(DESTDIR)$(LIBDIR)/pkgconfig/pskit.pc
	$(INSTALL) -m 644 lib/pskit/pskit.h $(DESTDIR)$(PREFIX)/include
	for s in 1 3 5 7 8; do $(INSTALL) -d $(DESTDIR)$(PREFIX)/share/man/man$$s; \
	  $(INSTALL) -m 644 man/*.$$s $(DESTDIR)$(PREFIX)/share/man/man$$s; done
	$(INSTALL) -d $(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(FISHDIR)
	$(BUILD)/ps-ctl completion zsh > $(DESTDIR)$(ZSHDIR)/_ps-ctl
	for p in $(PROGRAMS); do $(BUILD)/ps-ctl completion bash > $(DESTDIR)$(BASHDIR)/$$p && \
	  $(BUILD)/ps-ctl completion fish > $(DESTDIR)$(FISHDIR)/$$p.fish || exit 1; done

uninstall: ## remove what install wrote
	cd $(DESTDIR)$(PREFIX)/bin && rm -f $(PROGRAMS)
	cd $(DESTDIR)$(LIBDIR) && rm -f libpskit.so libpskit.so.0 libpskit.a pkgconfig/pskit.pc
	rm -f $(DESTDIR)$(PREFIX)/include/pskit.h
	for f in man/*; do n=$${f##*/}; rm -f $(DESTDIR)$(PREFIX)/share/man/man$${n##*.}/$$n; done
	rm -f $(DESTDIR)$(ZSHDIR)/_ps-ctl
	for p in $(PROGRAMS); do rm -f $(DESTDIR)$(BASHDIR)/$$p $(DESTDIR)$(FISHDIR)/$$p.fish; done

# Another commit is another version: contrib/version.
dist: ## write the sources of this commit to build/pskit-VERSION.tar.gz
	@contrib/dist $(BUILD)

deps-deb: deps ## install what make deb needs
	$(call install_packages,debhelper dh-python dpkg-dev fakeroot lintian)
deb: deps-deb ## build Debian packages of this commit into build/deb/
	@contrib/debian/build $(BUILD)/deb

# What tests/86-packages.bats needs beside: it is skipped where that cannot be had.
deps-packages: deps-deb deps-image
	-$(call install_packages,mmdebstrap podman runc netavark iptables)

IMAGE ?= localhost/pskit
deps-image: deps ## install what make image needs
	$(call install_packages,buildah busybox-static ca-certificates)
image: deps-image ## make a container image, IMAGE (localhost/pskit); as root
	@$(MAKE) --no-print-directory all
	@contrib/image/build $(BUILD) $(IMAGE)

clean: ## remove build/
	rm -rf build

help: ## list the targets
	@sed -nE 's/^([a-z][a-z_.-]*):[^=].*## (.*)|^([a-z-]+): ## (.*)/\1\3\t\2\4/p' Makefile | expand -t 24

.PHONY: help deb deps-deb dist image deps-image deps-packages sim sim-soak check-san check-locks deps-lint all units fuzzers faultkit benches deps deps-check deps-torch demo check bench bench-pslite bench-wire bench-rows bench-lookahead bench-sparse bench-plan bench-stragglers bench-ring bench-torch bench-dlrm bench-train bench-models bench-batches bench-quality bench-serve bench-replica bench-tiers bench-nearest bench-redis bench-http bench-blocks bench-scale bench-watch bench-adapt soak cuts format lint check-lab-free fuzz install uninstall clean
.SECONDARY:
-include $(shell find $(OBJ) $(BUILD)/tests $(BUILD)/bench $(BUILD)/fuzz -name '*.d' 2>/dev/null)
