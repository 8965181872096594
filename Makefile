# make            build the four programs into build/
# make demo       install what is needed, build, train on Fashion-MNIST
# make check      install what is needed, run every test
# make bench soak lint install uninstall clean
# V=1 shows commands; SAN=address,undefined or SAN=thread builds with sanitizers.

CC ?= gcc
PREFIX ?= /usr/local
DESTDIR ?=
CFLAGS ?= -O2 -g
PROGRAMS = ps-serve ps-work ps-ctl ps-stat

comma := ,
SAN ?=
# Sanitized objects and programs live apart from the plain ones.
BUILD := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
OBJ := $(BUILD)/obj

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion -Wformat=2 \
       -Wno-sign-conversion
STD = -std=c11 -D_GNU_SOURCE -Ilib -I. -include lib/base/banned.h -fno-math-errno -fno-trapping-math \
      -fvisibility=hidden -pthread
ifeq ($(WERROR),1)
WARN += -Werror
endif
ifneq ($(SAN),)
STD += -fsanitize=$(SAN) -fno-omit-frame-pointer -DPS_SANITIZED=1
LDSAN = -fsanitize=$(SAN)
CFLAGS := -O1 -g
endif
LIBS = -lmicrohttpd -ljansson -lsodium -lzstd -lz -lm -pthread
CURL = -lcurl
BLAS = -lopenblas

LIBSRC := $(sort $(wildcard lib/*/*.c))
LIBOBJ := $(LIBSRC:%.c=$(OBJ)/%.o)
LIB := $(BUILD)/libpskit.a
BINS := $(PROGRAMS:%=$(BUILD)/%)
UNITSRC := $(sort $(wildcard tests/unit/*.c))
UNITS := $(UNITSRC:tests/unit/%.c=$(BUILD)/tests/%)
BENCHSRC := $(sort $(wildcard tests/bench/*.c))
BENCHES := $(BENCHSRC:tests/bench/%.c=$(BUILD)/bench/%)
FUZZSRC := $(sort $(filter-out tests/fuzz/driver.c,$(wildcard tests/fuzz/*.c)))
FUZZERS := $(FUZZSRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2))

all: $(BINS)

# The numeric kernels: vectorised, and with the same bits on every machine.
$(OBJ)/lib/kern/%.o $(OBJ)/lib/optim/%.o: STD += -O3 -ffp-contract=off
$(OBJ)/lib/model/%.o: STD += -O3

$(OBJ)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(STD) $(WARN) -MMD -MP -c $< -o $@

# Removed first: ar would keep members whose source is gone.
$(LIB): $(LIBOBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIBOBJ)

CTLOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/ctl/*.c)))
STATOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/stat/*.c)))
WORKOBJ := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard cmd/work/*.c)))
$(BUILD)/ps-ctl: $(CTLOBJ)
$(BUILD)/ps-work: $(WORKOBJ)
$(BUILD)/ps-stat: $(STATOBJ)
$(BUILD)/ps-ctl $(BUILD)/ps-stat: PROGLIBS = $(CURL)
$(BUILD)/ps-work $(BUILD)/ps-ctl: PROGLIBS += $(BLAS)

$(BINS): $(BUILD)/%: $(OBJ)/cmd/%.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(LDSAN) $(filter %.o,$^) $(LIB) -Wl,--as-needed $(PROGLIBS) $(LIBS) -o $@

$(BUILD)/tests/%: tests/unit/%.c tests/unit/tap.h $(LIB)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -Itests/unit -MMD -MP $< $(LDSAN) $(LIB) -Wl,--as-needed $(BLAS) $(CURL) $(LIBS) -o $@

$(BUILD)/bench/%: tests/bench/%.c $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -MMD -MP $< $(LDSAN) $(LIB) -Wl,--as-needed $(BLAS) $(CURL) $(LIBS) -o $@

# Replays tests/fuzz/corpus/NAME through the harness; `make fuzz` runs libFuzzer.
$(BUILD)/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(STD) $(WARN) -MMD -MP $< tests/fuzz/driver.c $(LDSAN) $(LIB) -Wl,--as-needed $(BLAS) $(CURL) $(LIBS) -o $@

units: $(UNITS)
fuzzers: $(FUZZERS)
benches: $(BENCHES)

clean:
	rm -rf build

.PHONY: all units fuzzers benches clean
.SECONDARY:
-include $(shell find $(OBJ) $(BUILD)/tests $(BUILD)/bench $(BUILD)/fuzz -name '*.d' 2>/dev/null)
